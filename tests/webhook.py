"""A server that takes what is posted, as those of chats and of users' own do."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

PATIENCE_S = 20


class Server:
    """Takes what is posted, with answers that a test decides: 200 unless there are others."""

    def __init__(self) -> None:
        self.got: Queue[Any] = Queue()
        self.answers: list[int] = []
        self.held = threading.Event()
        self.held.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.held.wait(PATIENCE_S)
                code = outer.answers.pop(0) if outer.answers else 200
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                outer.got.put((self.headers["Content-Type"], json.loads(body)))

            do_GET = do_POST

            def log_message(self, *arguments: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/s3cret"
        threading.Thread(
            target=self._server.serve_forever, args=[0.01], daemon=True
        ).start()

    def message(self) -> Any:
        kind, message = self.got.get(timeout=PATIENCE_S)
        assert kind == "application/json"
        return message

    def close(self) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()
