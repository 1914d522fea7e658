"""Print the OpenAPI document of the studio's rooms; `make studio` makes the front end's types from it."""

from __future__ import annotations

import json

from fastapi import FastAPI

if __name__ == "__main__":
    from twinloop.studio.api import ROUTERS

    app = FastAPI(title="Twinloop studio")
    for router in ROUTERS:
        app.include_router(router)
    print(json.dumps(app.openapi()))
