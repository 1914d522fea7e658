"""`twinloop serve`: a policy behind the protocol of openpi."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from typer import Option

from twinloop.cli import console
from twinloop.cli.options import Json, PolicyMap, PolicyName
from twinloop.cli.places import load_policy

Host = Annotated[str, Option(help="Address to listen at; another than this machine's own needs a token.")]
Certificate = Annotated[
    Path | None, Option(metavar="PEM", help="Certificate of this server: clients connect by wss://.")
]
Key = Annotated[
    Path | None, Option(metavar="PEM", help="Key of the certificate, unless it is in the same file.")
]

RobotTwin = Annotated[
    str | None,
    Option("--twin", metavar="NAME|FOLDER", help="The robot's twin, for a policy given by its address."),
]


def serve(
    policy: PolicyName,
    port: Annotated[int, Option(help="Port to listen at; 0 picks one.", min=0, max=65535)] = 8000,
    host: Host = "127.0.0.1",
    simulated: Annotated[
        bool, Option("--simulated", help="Clients observe a simulation, not a robot.")
    ] = False,
    certificate: Certificate = None,
    key: Key = None,
    map_file: PolicyMap = None,
    twin: RobotTwin = None,
    json: Json = False,
) -> None:
    """Serve a policy by openpi's WebSocket protocol, for any openpi client; the token is in TWINLOOP_POLICY_TOKEN."""
    from twinloop.policies.backends.websocket import TOKEN
    from twinloop.policies.serve import Door, serve

    def on_ready(address: str) -> None:
        text = f"{loaded.name} is served at {address} (Ctrl-C to stop); clients: openpi:{address}"
        console.print_result(
            json, {"policy": f"openpi:{address}", "name": loaded.name, "id": loaded.id}, text
        )

    loaded = load_policy(policy, interface_map=map_file, twin=twin)
    door = Door(host, port, os.environ.get(TOKEN, ""), certificate, key)
    serve(loaded, door, real=not simulated, on_ready=on_ready)
