"""Who may ask the server, and what browsers are told about its answers.

The token is the one secret. It comes in the URL that `tuner serve` prints and is kept in a cookie
from then on, or it stands in the header `Authorization: Bearer TOKEN`. The page itself, its style
and its script hold no data, so they are given to everyone; all below /api needs the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuner.errors import UsageError, translate_error
from tuner.experiment.files import create_file, open_plain
from tuner.places import state_folder

MAX_BODY_BYTES = 1 << 20
TOKEN_VARIABLE = "TUNER_SERVE_TOKEN"  # in the environment
_TOKEN_LENGTHS = 32, 200  # least and most characters
_TOKEN_CHARACTERS = re.compile(r"[A-Za-z0-9._~-]+")  # need no quoting in a URL, header or cookie
_TOKEN_FILE = "serve-token"
_NEW_TOKEN_BYTES = 32

_READING = ("GET", "HEAD")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Its scripts run in an origin of their own, which has no cookie and may ask the network for nothing
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Json(Response):
    """A JSON answer in ASCII: names, and what was asked, may hold what UTF-8 cannot."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def refusal(status: int, reason: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says why there is none."""
    return Json({"error": reason}, status_code=status, headers=headers)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def names_of(host: str) -> frozenset[str]:
    """The names by which browsers may ask a server that listens on `host`, beside IP addresses."""
    if is_loopback(host):
        return frozenset({"localhost"})
    return frozenset({"localhost", host.lower(), *_names_of_this_machine()})


def _names_of_this_machine() -> set[str]:
    return {socket.gethostname().lower(), socket.getfqdn().lower()}


@dataclass(frozen=True, slots=True)
class Access:
    """The token; the names that the server has; its port; and whether it speaks TLS."""

    token: str
    names: frozenset[str]
    port: int
    is_tls: bool = False

    @property
    def cookie(self) -> str:
        """Its cookie's name: a browser sends cookies to all ports of a host."""
        return f"tuner_{self.port}"

    def is_own(self, host: str) -> bool:
        """Whether the header Host names this server.

        An address is always right: a page of a stranger's, whose name leads to this machine, gives
        its own name (DNS rebinding). The port may be that of an ssh tunnel.
        """
        name = _name_in(host)
        return name is not None and (name in self.names or _address(name) is not None)

    def is_token(self, text: str) -> bool:
        """Whether it is the token, compared in a time that tells nothing of it."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def entered(self, query: bytes) -> Response | None:
        """The answer to a URL with ?token=: a cookie and the page without it, or a refusal.

        None where there is no token in the URL.
        """
        given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("token")
        if given is None:
            return None
        if not self.is_token(given[0]):
            return refusal(401, "the token is not that of this server: open the URL that it prints")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self.cookie, self.token, path="/", secure=self.is_tls, httponly=True, samesite="strict"
        )
        return answer

    def refusal(self, method: str, headers: Headers) -> Response | None:
        """The answer to who may not ask below /api; None where it may."""
        bearer = headers.get("authorization", "")
        if bearer.lower().startswith("bearer "):
            return None if self.is_token(bearer[7:].strip()) else _unknown()
        if not self.is_token(self._cookie_in(headers)):
            return _unknown()
        # The cookie comes with whatever the browser asks, be it for a page of another origin
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return refusal(403, "asked by a page of another origin")
        if method not in _READING and not self._is_own_origin(headers):
            return refusal(403, "a change must be asked for by this server's own page")
        return None

    def _cookie_in(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def _is_own_origin(self, headers: Headers) -> bool:
        own = f"{'https' if self.is_tls else 'http'}://{headers.get('host', '')}"
        return headers.get("origin", "").lower() == own.lower()


class Guard:
    """The application `app`, asked only by who may; every answer has the headers of `_HEADERS`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # Bodies are JSON, though clients as Python's urllib call them forms
        MutableHeaders(scope=scope)["content-type"] = "application/json"
        answer = self._answer(scope) or self._app
        await answer(scope, receive, send_guarded)

    def _answer(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._access.is_own(headers.get("host", "")):
            return refusal(400, "this server has another name")
        if path == "/" and (entered := self._access.entered(scope["query_string"])):
            return entered
        if path.startswith("/api") and (no := self._access.refusal(scope["method"], headers)):
            return no
        return _refusal_of_size(scope["method"], headers)


def _refusal_of_size(method: str, headers: Mapping[str, str]) -> Response | None:
    if method in _READING:
        return None
    size = headers.get("content-length", "0")
    if not size.isdecimal() or "transfer-encoding" in headers:
        return refusal(411, "what is posted must say its length")
    too_large = len(size) > len(str(MAX_BODY_BYTES)) or int(size) > MAX_BODY_BYTES
    return refusal(413, f"at most {MAX_BODY_BYTES} bytes are taken") if too_large else None


def _unknown() -> Response:
    return refusal(401, "the token is missing: open the URL that `tuner serve` prints")


def _name_in(host: str) -> str | None:
    """The name, without port and brackets, in a header Host; None for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.netloc == host and parts.port != 0 else None
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def token_of(*, is_kept: bool) -> str:
    """That of the environment, else the one that is kept in a file of the user's, else a new one.

    is_kept: keep it in that file. What the environment has is taken out of it, so that no command
    that this process starts has it. Raises UsageError, which does not show it, where it could be
    guessed or is not the user's alone.
    """
    if given := os.environ.pop(TOKEN_VARIABLE, ""):
        return _checked(given, f"${TOKEN_VARIABLE}")
    return _kept(state_folder() / _TOKEN_FILE) if is_kept else _new()


def _new() -> str:
    return secrets.token_urlsafe(_NEW_TOKEN_BYTES)


def _kept(path: Path) -> str:
    """The token in the file at `path`, which is made where there is none."""
    with translate_error(UsageError, f"the token cannot be kept in {path}", of=OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            with suppress(FileExistsError):  # made by another server a moment ago
                create_file(path, _new().encode(), mode=0o600)
        with os.fdopen(open_plain(path), "rb") as file:
            found, data = os.fstat(file.fileno()), file.read(_TOKEN_LENGTHS[1] + 2)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            f"{path} holds the token of `tuner serve`, and is not yours alone: remove it, and the "
            "next start makes a new one"
        )
    return _checked(data.decode("ascii", "replace").strip(), str(path))


def _checked(token: str, source: str) -> str:
    least, most = _TOKEN_LENGTHS
    is_plain = _TOKEN_CHARACTERS.fullmatch(token) is not None
    if least <= len(token) <= most and is_plain:
        return token
    raise UsageError(
        f"the token in {source} must have {least} to {most} characters, each a letter, a digit or "
        f"one of - . _ ~; it has {len(token) if is_plain else 'others'}: `openssl rand -hex 32` "
        "makes one"
    )
