"""openpi's own client asks a server: `client.py ADDRESS STATES.npz [TOKEN]` prints the metadata and the chunks as JSON."""

import json
import sys
import warnings

import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy

warnings.simplefilter("ignore")  # websockets 17 on how this client connects

address, states, *token = sys.argv[1:]
policy = WebsocketClientPolicy(address, api_key=token[0] if token else None)
observations = np.load(states)
count = len(observations[observations.files[0]])
chunks, errors = [], []
for row in range(count):
    observation = {name: observations[name][row] for name in observations.files}
    chunks.append(policy.infer({"prompt": "pick up the cube", **observation})["actions"].tolist())
try:
    policy.infer({"prompt": "nothing to see"})
except RuntimeError as error:
    errors.append(str(error))
again = policy.infer({"reset": 5, **{name: observations[name][0] for name in observations.files}})
print(
    json.dumps(
        {
            "metadata": policy.get_server_metadata(),
            "chunks": chunks,
            "errors": errors,
            "again": again["actions"].tolist(),
            "infer_ms": again["server_timing"]["infer_ms"],
        }
    )
)
