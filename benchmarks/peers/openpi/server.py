"""A server of openpi's protocol with openpi's own message encoding; prints its address, and serves until it is ended.

openpi's server class is not in a package; this does what it does: metadata on connect, one answer for each request, and the
traceback as text before it closes the connection.
"""

import asyncio
import http
import json
import time
import traceback

import numpy as np
from openpi_client import msgpack_numpy
from websockets.asyncio.server import serve

METADATA = {"model": "affine", "reset_pose": np.array([0.0, 0.5]), "action_dim": np.int64(2)}


def infer(request):
    """Three actions from state, image and prompt, so that each of them is seen to arrive."""
    state, image = request["observation/state"], request["observation/image"]
    assert state.dtype == np.float32 and image.dtype == np.uint8, (state.dtype, image.dtype)
    first = np.array([state.sum() + len(request["prompt"]), image.mean()], np.float64)
    return {"actions": first + np.arange(3)[:, None], "state": state}


async def attend(connection):
    await connection.send(msgpack_numpy.packb(METADATA))
    async for message in connection:
        try:
            began = time.monotonic()
            answer = infer(msgpack_numpy.unpackb(message))
            answer["server_timing"] = {"infer_ms": 1e3 * (time.monotonic() - began)}
            await connection.send(msgpack_numpy.packb(answer))
        except Exception:  # noqa: BLE001  as openpi does
            await connection.send(traceback.format_exc())
            await connection.close(
                code=1011, reason="Internal server error. Traceback included in previous frame."
            )
            return


def healthz(connection, request):
    return connection.respond(http.HTTPStatus.OK, "OK\n") if request.path == "/healthz" else None


async def main():
    async with serve(
        attend, "127.0.0.1", 0, compression=None, max_size=None, process_request=healthz
    ) as server:
        port = server.sockets[0].getsockname()[1]
        print(json.dumps({"policy": f"openpi:ws://127.0.0.1:{port}"}), flush=True)
        await server.serve_forever()


asyncio.run(main())
