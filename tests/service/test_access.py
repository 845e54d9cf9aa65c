"""Who may ask the server."""

import asyncio
import os
import re

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tuner.errors import UsageError
from tuner.service.access import (
    MAX_BODY_BYTES,
    TOKEN_VARIABLE,
    Access,
    Guard,
    choose_token,
    list_host_names,
)

TOKEN = "the-token"
ACCESS = Access(TOKEN, list_host_names("127.0.0.1"), 8642)
HOST = {"host": "127.0.0.1:8642"}
COOKIE = {**HOST, "cookie": f"tuner_8642={TOKEN}"}
BEARER = {**HOST, "authorization": f"Bearer {TOKEN}"}


def ask(method, path, headers, content=b""):
    """What the guarded application answers."""

    async def done(request):
        return PlainTextResponse("done")

    routes = [Route("/{path:path}", done, methods=["GET", "POST"])]

    async def asked():
        transport = httpx.ASGITransport(Guard(Starlette(routes=routes), ACCESS))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://x", verify=False
        ) as client:
            return await client.request(method, path, headers=headers, content=content)

    return asyncio.run(asked())


def test_guard_requires_token_below_api_only():
    assert ask("GET", "/", HOST).status_code == 200
    assert ask("GET", "/page.js", HOST).status_code == 200
    for path in ("/api", "/api/experiments", "/api/events", "/api//", "/apis"):
        assert ask("GET", path, HOST).status_code == 401
    wrong = {
        **HOST,
        "authorization": "Bearer the-tokem",
        "cookie": f"tuner_8642={TOKEN}",
    }
    assert ask("GET", "/api/x", wrong).status_code == 401
    assert (
        ask("GET", "/api/x", {**HOST, "cookie": b"tuner_8642=\xc3\xa9"}).status_code
        == 401
    )
    assert (
        ask("GET", "/api/x", {**HOST, "cookie": f"tuner_8643={TOKEN}"}).status_code
        == 401
    )
    for right in (BEARER, COOKIE):
        assert ask("GET", "/api/x", right).text == "done"


def test_url_with_token_sets_strict_httponly_cookie():
    entered = ask("GET", f"/?token={TOKEN}", HOST)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    attributes = entered.headers["set-cookie"].lower()
    assert attributes.startswith(f"tuner_8642={TOKEN};")
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    assert "secure" not in attributes  # over http no browser would keep it
    refused = ask("GET", "/?token=another", HOST)
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers


def test_cookie_over_tls_is_secure():
    access = Access(TOKEN, list_host_names("127.0.0.1"), 8642, is_tls=True)
    scope = {"type": "http", "query_string": f"token={TOKEN}".encode()}
    assert "Secure" in access.accept_token(HTTPConnection(scope)).headers["set-cookie"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8642", "", "127.0.0.1.evil:8642"]
)
def test_guard_rejects_other_host_names(host):
    for path in ("/", f"/?token={TOKEN}", "/api/x"):
        assert ask("GET", path, {**BEARER, "host": host}).status_code == 400


@pytest.mark.parametrize(
    "host", ["localhost:1", "LOCALHOST", "127.0.0.1:9000", "[::1]:8642"]
)
def test_guard_accepts_own_names_on_every_port(host):
    assert ask("GET", "/api/x", {**BEARER, "host": host}).status_code == 200


def test_guard_rejects_cookie_from_another_origin():
    origin = {"origin": "http://127.0.0.1:8642"}
    assert ask("POST", "/api/x", {**COOKIE, **origin}, b"{}").status_code == 200
    for other in ({}, {"origin": "http://127.0.0.1:3000"}, {"origin": "null"}):
        assert ask("POST", "/api/x", {**COOKIE, **other}, b"{}").status_code == 403
    for site in ("cross-site", "same-site"):
        assert (
            ask("GET", "/api/x", {**COOKIE, "sec-fetch-site": site}).status_code == 403
        )
    assert (
        ask("GET", "/api/x", {**COOKIE, "sec-fetch-site": "same-origin"}).status_code
        == 200
    )
    # No browser adds that by itself
    assert ask("POST", "/api/x", BEARER, b"{}").status_code == 200


def test_guard_limits_size_of_body():
    assert ask("POST", "/api/x", BEARER, b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert (
        ask("POST", "/api/x", {**BEARER, "content-length": "9" * 5000}).status_code
        == 413
    )
    for unsaid in ({"content-length": "-1"}, {"transfer-encoding": "chunked"}):
        assert ask("POST", "/api/x", {**BEARER, **unsaid}).status_code == 411
    assert ask("POST", "/api/x", BEARER).status_code == 200


def test_guard_adds_security_headers():
    for path in ("/", "/api/x"):
        headers = ask("GET", path, HOST).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


USER_TOKEN = "0123456789abcdef" * 4


def test_token_of_is_a_new_one_or_that_of_the_environment_once(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    first = choose_token()
    second = choose_token()
    assert first != second
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", first)
    monkeypatch.setenv(TOKEN_VARIABLE, USER_TOKEN)
    assert choose_token() == USER_TOKEN
    assert TOKEN_VARIABLE not in os.environ


@pytest.mark.parametrize(
    "token",
    ["secret-7", "a" * 201, f"{USER_TOKEN} x", f"{USER_TOKEN}&a=b", f"{USER_TOKEN}\n"],
)
def test_token_of_rejects_weak_or_unquotable_token_without_showing_it(
    snapshot, monkeypatch, token
):
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with snapshot.raises(UsageError) as refused:
        choose_token()
    assert str(refused.value).startswith(f"the token in ${TOKEN_VARIABLE} ")
    assert token not in str(refused.value)
