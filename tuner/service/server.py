"""The server's process: its socket, its TLS, what it prints, and how it ends."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from tuner import process
from tuner.errors import UsageError
from tuner.service.access import Access, is_loopback, names_of, token_of
from tuner.service.app import Live, application

_GRACE_S = 2  # for answers that are being sent when the server ends
_MOST_CONNECTIONS = 512  # at a time; others get 503


def check_host(host: str, *, is_tls: bool, is_insecure: bool) -> None:
    """Raise UsageError if others can reach the host, without TLS and without --insecure."""
    if is_loopback(host) or is_tls or is_insecure:
        return
    raise UsageError(
        f"--host {host} can be reached by others, who could read the token on its way: give --cert "
        "and --key for TLS, or --insecure where the network is your own; without --host, this "
        "machine alone reaches it, and others by ssh -L"
    )


def check_pair(cert: Path | None, key: Path | None) -> bool:
    """Whether to use TLS; raises UsageError if the two files do not belong together."""
    if cert is None and key is None:
        return False
    if cert is None or key is None:
        raise UsageError("--cert and --key go together: the certificate's file and its key's")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--cert {cert} and --key {key} are no pair for TLS: {error}") from error
    return True


def serve(
    storage: str | None,
    *,
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    is_insecure: bool,
    agents: Mapping[str, float] | None,
    notify: Callable[[str, int], object],
) -> None:
    """Serve the experiments of `storage` until a signal comes.

    agents: as `application` has it. notify: called with the URL and the port once the server can be
    reached. Raises UsageError for an unusable host, port, certificate or token.
    """
    is_tls = check_pair(cert, key)
    check_host(host, is_tls=is_tls, is_insecure=is_insecure)
    token = token_of()
    listening = _listening(host, port)
    port = listening.getsockname()[1]
    access = Access(token, names_of(host), port, is_tls)
    config = uvicorn.Config(
        app := application(storage, access, agents=agents),
        limit_concurrency=_MOST_CONNECTIONS,
        ssl_certfile=cert,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,  # it would contain the token
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
    )
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        name = socket.gethostname()
    url = f"{'https' if is_tls else 'http'}://{name}:{port}/?token={access.token}"
    with suppress(KeyboardInterrupt):  # a signal before the server handles them
        notify(url, port)
        _Server(config, app.state.live).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends its streams before it waits for answers. Ignored signals stay ignored."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Within it a signal ends the server."""
        with process.handled(lambda number, frame: self.handle_exit(number, None)):
            yield

    def handle_exit(self, sig: int, frame: object) -> None:
        """End soon; at once after a second SIGINT."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End. Do not log what this cuts short, such as the making of a report."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await self._live.close()
        await super().shutdown(sockets)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror}; give another --port, or 0 "
            "for a free one"
        ) from error
    except OverflowError as error:
        raise UsageError(f"--port must be from 0 to 65535, got {port}") from error
