"""Who may ask the server."""

import asyncio
import json
import os
import re
import stat

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tuner.errors import UsageError
from tuner.service.access import (
    MAX_BODY_BYTES,
    TOKEN_VARIABLE,
    Access,
    Guard,
    Json,
    is_loopback,
    names_of,
    refusal,
    token_of,
)

TOKEN = "the-token"
ACCESS = Access(TOKEN, names_of("127.0.0.1"), 8642)
OWN = {"host": "127.0.0.1:8642"}
COOKIE = {**OWN, "cookie": f"tuner_8642={TOKEN}"}
BEARER = {**OWN, "authorization": f"Bearer {TOKEN}"}


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


def test_the_page_is_everyones_and_the_data_whose_the_token_is():
    assert ask("GET", "/", OWN).status_code == 200
    assert ask("GET", "/page.js", OWN).status_code == 200
    for path in ("/api", "/api/experiments", "/api/events", "/api//", "/apis"):
        assert ask("GET", path, OWN).status_code == 401
    wrong = {**OWN, "authorization": "Bearer the-tokem", "cookie": f"tuner_8642={TOKEN}"}
    assert ask("GET", "/api/x", wrong).status_code == 401
    assert ask("GET", "/api/x", {**OWN, "cookie": b"tuner_8642=\xc3\xa9"}).status_code == 401
    assert ask("GET", "/api/x", {**OWN, "cookie": f"tuner_8643={TOKEN}"}).status_code == 401
    for right in (BEARER, COOKIE):
        assert ask("GET", "/api/x", right).text == "done"


def test_the_token_is_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr(
        "tuner.service.access.hmac.compare_digest", lambda a, b: compared.append(a) or a == b
    )
    ask("GET", "/api/x", {**OWN, "authorization": "Bearer y"})
    ask("GET", "/?token=z", OWN)
    assert compared == [b"y", b"z"]


def test_the_url_gives_a_cookie_that_no_script_and_no_other_site_has():
    entered = ask("GET", f"/?token={TOKEN}", OWN)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    attributes = entered.headers["set-cookie"].lower()
    assert attributes.startswith(f"tuner_8642={TOKEN};")
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    assert "secure" not in attributes  # over http no browser would keep it
    refused = ask("GET", "/?token=another", OWN)
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers


def test_over_tls_the_cookie_is_secure():
    access = Access(TOKEN, names_of("127.0.0.1"), 8642, is_tls=True)
    assert "Secure" in access.entered(f"token={TOKEN}".encode()).headers["set-cookie"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "", "127.0.0.1.evil:8642"])
def test_another_name_that_leads_here_is_refused(host):
    for path in ("/", f"/?token={TOKEN}", "/api/x"):
        assert ask("GET", path, {**BEARER, "host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1:9000", "[::1]:8642"])
def test_its_own_names_are_taken_on_every_port(host):
    assert ask("GET", "/api/x", {**BEARER, "host": host}).status_code == 200


def test_a_server_for_others_is_known_by_its_name():
    access = Access(TOKEN, names_of("gpu.example"), 8642)
    assert access.is_own("gpu.example:8642")
    assert access.is_own("192.0.2.1:8642")
    assert not access.is_own("gpu.example.evil:8642")


def test_a_page_of_another_origin_changes_nothing_and_reads_nothing():
    origin = {"origin": "http://127.0.0.1:8642"}
    assert ask("POST", "/api/x", {**COOKIE, **origin}, b"{}").status_code == 200
    for other in ({}, {"origin": "http://127.0.0.1:3000"}, {"origin": "null"}):
        assert ask("POST", "/api/x", {**COOKIE, **other}, b"{}").status_code == 403
    for site in ("cross-site", "same-site"):
        assert ask("GET", "/api/x", {**COOKIE, "sec-fetch-site": site}).status_code == 403
    assert ask("GET", "/api/x", {**COOKIE, "sec-fetch-site": "same-origin"}).status_code == 200
    assert ask("POST", "/api/x", BEARER, b"{}").status_code == 200  # no browser adds that by itself


def test_what_is_posted_has_a_limit():
    assert ask("POST", "/api/x", BEARER, b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert ask("POST", "/api/x", {**BEARER, "content-length": "9" * 5000}).status_code == 413
    for unsaid in ({"content-length": "-1"}, {"transfer-encoding": "chunked"}):
        assert ask("POST", "/api/x", {**BEARER, **unsaid}).status_code == 411
    assert ask("POST", "/api/x", BEARER).status_code == 200


def test_every_answer_says_what_a_browser_may_do_with_it():
    for path in ("/", "/api/x"):
        headers = ask("GET", path, OWN).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_what_is_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "")))


def test_an_answer_may_hold_what_utf_8_cannot():
    answer = Json({"name": "a\udcff", "é": None})
    assert answer.body == b'{"name":"a\\udcff","\\u00e9":null}'
    assert answer.headers["content-type"] == "application/json"


def test_a_refusal_says_why():
    why = "no experiment '\ud800'"
    answer = refusal(404, why)
    assert (answer.status_code, json.loads(answer.body)) == (404, {"error": why})


USER_TOKEN = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The user's state folder, of which there is nothing yet."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tuner"


def test_it_is_another_each_time_and_written_nowhere(state):
    first, second = token_of(is_kept=False), token_of(is_kept=False)
    assert first != second
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", first)
    assert not state.exists()


def test_that_of_the_environment_is_taken_out_of_it(state, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, USER_TOKEN)
    assert token_of(is_kept=True) == USER_TOKEN
    assert TOKEN_VARIABLE not in os.environ
    assert not state.exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("secret-7", "must have 32 to 200 characters, .*; it has 8: "),
        ("a" * 201, "it has 201: "),
        (f"{USER_TOKEN} x", "it has others: "),
        (f"{USER_TOKEN}&a=b", "it has others: "),
        (f"{USER_TOKEN}\n", "it has others: "),
    ],
)
def test_one_that_is_no_secret_or_no_part_of_a_url_is_refused_and_not_shown(
    monkeypatch, given, told
):
    monkeypatch.setenv(TOKEN_VARIABLE, given)
    with pytest.raises(UsageError, match=told) as refused:
        token_of(is_kept=False)
    assert str(refused.value).startswith(f"the token in ${TOKEN_VARIABLE} ")
    assert given not in str(refused.value)


def test_one_that_is_kept_is_the_same_at_each_start_and_its_users_alone(state):
    before = os.umask(0)
    try:
        first = token_of(is_kept=True)
    finally:
        os.umask(before)
    assert token_of(is_kept=True) == first != token_of(is_kept=False)
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_file_that_others_can_read_or_that_is_no_plain_one_is_refused(state):
    first = token_of(is_kept=True)
    (file,) = state.iterdir()
    file.chmod(0o640)
    with pytest.raises(UsageError, match="is not yours alone: remove it"):
        token_of(is_kept=True)
    file.rename(state / "elsewhere")
    file.symlink_to(state / "elsewhere")
    with pytest.raises(UsageError, match=r"cannot be kept in .*: it is a symbolic link"):
        token_of(is_kept=True)
    file.unlink()
    assert token_of(is_kept=True) != first


def test_a_file_that_was_cut_short_is_refused(state):
    token_of(is_kept=True)
    (file,) = state.iterdir()
    file.write_text("abc")
    with pytest.raises(UsageError, match=rf"the token in {file} must have .*; it has 3: "):
        token_of(is_kept=True)
