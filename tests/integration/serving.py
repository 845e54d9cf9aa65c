"""A server of the four verbs, as a process of its own: python -m serving STORAGE PORT."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from tuner.serve.ask_tell import routes

if __name__ == "__main__":
    storage, port = sys.argv[1:]
    app = Starlette(routes=[Mount("/api/ask-tell", routes=routes(storage))])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", ws="none")
