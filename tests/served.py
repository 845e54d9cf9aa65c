"""`tuner serve` on a storage, in this process."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from urllib.parse import quote

import httpx
import uvicorn

from tuner.service.access import Access, list_host_names
from tuner.service.app import create_application

TOKEN = "the-token"
HOST = "http://127.0.0.1:8642"


class Served:
    """The application of a storage; every request has the token."""

    def __init__(self, storage):
        self.app = create_application(
            str(storage), Access(TOKEN, list_host_names("127.0.0.1"), 8642)
        )
        self.live = self.app.state.live
        self.experiments = self.app.state.experiments

    def get(self, *parts, **query):
        """What it answers below /api/experiments."""
        return self.ask("GET", path(*parts), params=query)

    def post(self, *parts, **body):
        return self.ask("POST", path(*parts), json=body)

    def ask(self, method, path, **options):
        async def asked():
            transport = httpx.ASGITransport(self.app)
            headers = {"Authorization": f"Bearer {TOKEN}"}
            options_of_all = {"base_url": HOST, "headers": headers, "verify": False}
            async with httpx.AsyncClient(
                transport=transport, **options_of_all
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(asked())


@contextmanager
def listen(storage):
    """The URL of a server of the storage, in a thread; its token is TOKEN."""
    options = {"log_level": "error", "ws": "none", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(Served(storage).app, **options))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def path(*parts):
    return "/".join(["/api/experiments", *(quote(part, safe="") for part in parts)])
