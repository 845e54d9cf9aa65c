"""Access to the server, and the security headers of its answers.

The token is the only secret. It is in the URL that `tuner serve` prints, and in a cookie from then
on, or in the header `Authorization: Bearer TOKEN`. Everything below /api and /mcp needs it. The
page, its style and its script hold no data and need none.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuner.errors import UsageError
from tuner.service.answers import build_refusal

MAX_BODY_BYTES = 1 << 20
TOKEN_VARIABLE = "TUNER_SERVE_TOKEN"  # in the environment
# Needs no quoting in a URL, header or cookie
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{32,200}")

_READING = ("GET", "HEAD")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"  # data: plotly.js draws cells of a heatmap as an image
)
_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether a server that listens on `host` can be reached from this machine only."""
    address = _parse_address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def list_host_names(host: str) -> frozenset[str]:
    """The host names, beside IP addresses, of a server that listens on `host`."""
    if is_loopback(host):
        return frozenset({"localhost"})
    here = {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset({"localhost", host.lower(), *here})


@dataclass(frozen=True, slots=True)
class Access:
    """The token; the server's host names and port; and whether it speaks TLS."""

    token: str
    names: frozenset[str]
    port: int
    is_tls: bool = False

    @property
    def cookie(self) -> str:
        """The name of its cookie. Browsers send cookies to all ports of a host."""
        return f"tuner_{self.port}"

    def is_this_server(self, host: str) -> bool:
        """Whether the header Host names this server.

        Any IP address does. A page of another site that resolves to this machine sends its own name
        (DNS rebinding). The port may be that of an ssh tunnel.
        """
        name = _parse_host(host)
        return name is not None and (
            name in self.names or _parse_address(name) is not None
        )

    def is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def accept_token(self, request: HTTPConnection) -> Response | None:
        """The answer to a URL with ?token=: cookie and redirect, or a refusal. Else None."""
        token = request.query_params.get("token")
        if token is None:
            return None
        if not self.is_token(token):
            return build_refusal(
                401, "the token is not that of this server: open the URL that it prints"
            )
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self.cookie,
            self.token,
            path="/",
            secure=self.is_tls,
            httponly=True,
            samesite="strict",
        )
        return answer

    def check_request(self, request: HTTPConnection) -> Response | None:
        headers = request.headers
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        has_bearer = scheme.lower() == "bearer"
        token = bearer.strip() if has_bearer else request.cookies.get(self.cookie, "")
        if not self.is_token(token):
            return build_refusal(
                401, "the token is missing: open the URL that `tuner serve` prints"
            )
        if has_bearer:
            return None
        # Browsers send the cookie with every request, also with those of pages of other origins
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return build_refusal(403, "requested by a page of another origin")
        origin = f"{'https' if self.is_tls else 'http'}://{headers.get('host', '')}"
        is_same_origin = headers.get("origin", "").lower() == origin.lower()
        if request.scope["method"] not in _READING and not is_same_origin:
            return build_refusal(
                403, "only this server's own page may request a change"
            )
        return None


class Guard:
    """Passes allowed requests to `app`, and adds `_HEADERS` to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # Bodies are JSON, though clients such as Python's urllib call them forms
        MutableHeaders(scope=scope)["content-type"] = "application/json"
        answer = self._check_request(HTTPConnection(scope)) or self._app
        await answer(scope, receive, send_guarded)

    def _check_request(self, request: HTTPConnection) -> Response | None:
        """The answer to a request that does not reach the application."""
        path = request.scope["path"]
        if not self._access.is_this_server(request.headers.get("host", "")):
            return build_refusal(400, "this server has another name")
        if path == "/" and (entered := self._access.accept_token(request)):
            return entered
        if path.startswith(("/api", "/mcp")) and (
            refused := self._access.check_request(request)
        ):
            return refused
        if request.scope["method"] in _READING:
            return None
        size = request.headers.get("content-length", "0")
        if not size.isdecimal() or "transfer-encoding" in request.headers:
            return build_refusal(411, "a request with a body needs Content-Length")
        is_too_large = (
            len(size) > len(str(MAX_BODY_BYTES)) or int(size) > MAX_BODY_BYTES
        )
        return (
            build_refusal(413, f"a body may have {MAX_BODY_BYTES} bytes")
            if is_too_large
            else None
        )


def _parse_host(host: str) -> str | None:
    """The name, without port and brackets, in a header Host; None for an invalid header."""
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.netloc == host and parts.port != 0 else None
    except ValueError:
        return None


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def choose_token() -> str:
    """The token of the environment, else a new one.

    The variable is removed, so that no child process gets it. Raises UsageError, without the token,
    for one that could be guessed.
    """
    token = os.environ.pop(TOKEN_VARIABLE, "") or secrets.token_urlsafe(32)
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"the token in ${TOKEN_VARIABLE} must have 32 to 200 characters, each a letter, a "
            "digit or one of - . _ ~: `openssl rand -hex 32` makes one"
        )
    return token
