"""The application: its page, its description, its events; what its server refuses, and its end."""

import asyncio
import errno
import json
import re
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress

import pytest
import uvicorn
from commands import start
from jsonschema import Draft202012Validator
from served import HOST, Served
from sockets import listening, outside
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import StreamingResponse
from starlette.routing import Route
from synthetic import ended

from tuner.errors import UsageError
from tuner.service import watch
from tuner.service.answers import RETRY_S
from tuner.service.app import (
    AnswerAtTheEnd,
    Live,
    _Connection,
    _open_socket,
    _Server,
    check_host,
    check_pair,
)
from tuner.service.watch import Experiments, Pace


def test_page_loads_only_its_own_files_and_parses_no_html(tmp_path):
    served = Served(tmp_path)
    page = served.ask("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    for path in re.findall(r'(?:href|src)="(/page[^"]*)"', page.text):
        assert served.ask("GET", path).status_code == 200
    assert not re.search(r"https?://", page.text)  # nothing of another server
    assert served.ask("GET", "/verbs.js").text.startswith(
        'export default [{"name": "stop-trial",'
    )
    plotly = served.ask("GET", "/plotly.js")
    assert plotly.headers["cache-control"] == "max-age=604800"
    assert "plotly.js v" in plotly.text[:200]
    parsed = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|DOMParser"
    for name in ("page", "figures", "elements"):
        assert not re.findall(parsed, served.ask("GET", f"/{name}.js").text)


@pytest.mark.parametrize(
    "path", ["/page/page.html", "/page.css/../app.py", "/%2e%2e/app.py"]
)
def test_other_files_are_not_served(tmp_path, path):
    assert Served(tmp_path).ask("GET", f"{HOST}{path}").status_code == 404


def test_agents_are_not_served_unless_requested(tmp_path):
    assert Served(tmp_path).ask("POST", "/mcp", json={}).status_code == 405  # of a page


def test_openapi_has_every_endpoint_and_valid_schemas(tmp_path):
    document = Served(tmp_path).ask("GET", "/api/openapi.json").json()
    paths = {
        "/api/experiments/{name}/trials/{trial_id}",
        "/api/events",
        "/api/ask-tell/",
    }
    assert paths <= set(document["paths"])
    for operations in document["paths"].values():
        assert all(
            "422" not in operation["responses"] for operation in operations.values()
        )
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert set(re.findall(r"#/components/schemas/(\w+)", str(document))) <= set(schemas)
    assert {"StopTrial", "Try", "Client"} <= set(schemas)


async def stream(live, experiment=None):
    """The events of one listener."""
    async for text in (await live.stream(experiment)).body_iterator:
        kind, _, data = text.partition("\ndata: ")
        yield (kind.removeprefix("event: "), json.loads(data)) if data else (text, None)


async def take(most, events):
    for _ in range(most):
        yield await anext(events)


def play(story, experiments):
    """Run `story(live)` while the experiments are looked at."""

    async def played():
        live = Live(experiments)
        looking = asyncio.create_task(live.run())
        try:
            async with asyncio.timeout(60):
                await story(live)
        finally:
            looking.cancel()

    asyncio.run(played())


@pytest.fixture
def experiments(tmp_path):
    return Experiments(str(tmp_path), pace=Pace(running=0.01, over=0, new=0))


def test_stream_sends_everything_then_changes(writer, experiments):

    async def story(live):
        events = stream(live, "digits")
        kind, data = await anext(events)
        assert (kind, [listed["name"] for listed in data["listed"]]) == (
            "experiments",
            ["digits"],
        )
        kind, data = await anext(events)
        assert (kind, data["best"]) == ("experiment", None)
        writer.trial(0, [0.5])
        kind, data = await anext(events)
        assert (kind, data["listed"][0]["best"]) == ("experiments", 0.5)
        kind, data = await anext(events)
        assert (kind, data["best"]["metrics"]) == ("experiment", {"val_accuracy": 0.5})
        await live.close()
        assert [event async for event in events] == []

    play(story, experiments)
    writer.end()


def test_stream_recovers_after_storage_failure(
    tmp_path, writer, experiments, monkeypatch
):

    def fails(storage, *, trusted):
        raise OSError(errno.ESTALE, "Stale file handle")

    async def story(live):
        events = stream(live)
        assert (await anext(events))[1]["problem"] == ""
        with monkeypatch.context() as broken:
            broken.setattr(watch, "find_experiment_folders", fails)
            data = (await anext(events))[1]
            assert (
                data["problem"]
                == f"{tmp_path} cannot be read: [Errno 116] Stale file handle"
            )
        assert (await anext(events))[1]["problem"] == ""
        writer.trial(0, [0.5])
        assert (await anext(events))[1]["listed"][0]["best"] == 0.5

    play(story, experiments)
    writer.end()


def test_check_host_rejects_public_address_without_tls_or_insecure(snapshot):
    check_host("127.0.0.1", is_tls=False, is_insecure=False)
    check_host("0.0.0.0", is_tls=True, is_insecure=False)
    check_host("0.0.0.0", is_tls=False, is_insecure=True)
    for host in ("0.0.0.0", "::", "192.0.2.1", "gpu.example"):
        with snapshot.raises(UsageError):
            check_host(host, is_tls=False, is_insecure=False)


def test_check_pair_rejects_incomplete_or_invalid_pair(snapshot, tmp_path):
    assert not check_pair(None, None)
    file = tmp_path / "x.pem"
    file.write_text("no certificate")
    with snapshot.raises(UsageError):
        check_pair(file, None)
    with snapshot.raises(UsageError, varying={r"\[SSL\].*": "REASON"}):
        check_pair(file, file)


def test_listening_rejects_taken_port(snapshot):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with snapshot.raises(UsageError):
            _open_socket("127.0.0.1", port)


def started(tmp_path, *arguments):
    """A server of one experiment, and the URL that it prints."""
    if not (tmp_path / "digits").exists():
        ended(tmp_path / "digits", [0.5])
    command = ("serve", "--port", 0, "--storage", tmp_path, *arguments)
    process = start(*command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return process, process.stdout.readline().strip()


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read().decode()


def test_serve_ends_on_signal_with_an_open_stream(tmp_path):
    process, url = started(tmp_path)
    base, token = re.fullmatch(
        r"(http://127\.0\.0\.1:\d+)/\?token=(\S{43})", url
    ).groups()
    assert outside([process.pid]) == []
    assert len(listening([process.pid])) == 1
    bearer = {"Authorization": f"Bearer {token}"}
    assert '"name":"digits"' in get(f"{base}/api/experiments", **bearer)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{base}/api/experiments")
    stream = urllib.request.urlopen(
        urllib.request.Request(f"{base}/api/events", headers=bearer)
    )
    assert stream.readline() == b"event: experiments\n"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    stream.close()
    assert process.returncode == 0
    assert stderr == ""


def test_request_that_the_end_of_the_server_cuts_short_is_to_be_sent_again(capfd):
    async def report(request):
        server.handle_exit(signal.SIGTERM, None)
        await asyncio.sleep(60)

    app = Starlette(
        routes=[Route("/", report)], middleware=[Middleware(AnswerAtTheEnd)]
    )
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=0.05)
    server = _Server(config, Live(None), lambda: None)
    listening = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(listening.getsockname()) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        server.run(sockets=[listening])
        answer = client.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 503 ")
    assert f"retry-after: {RETRY_S}\r\n" in answer
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_serve_over_tls_until_interrupted(tmp_path):
    cert = tmp_path / "cert.pem"
    key = tmp_path / "key.pem"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run(
        ["openssl", *made, "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    process, url = started(tmp_path, "--host", "0.0.0.0", "--cert", cert, "--key", key)
    port, token = re.fullmatch(r"https://[^/]+:(\d+)/\?token=(\S+)", url).groups()
    trusted = ssl.create_default_context(cafile=cert)
    trusted.check_hostname = False
    request = urllib.request.Request(
        f"https://localhost:{port}/api/experiments",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, context=trusted) as answer:
        assert b"digits" in answer.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    process.communicate()


def serve_hastily(app, story, **limits):
    """Run `story(server, address)` while a server whose connections have these limits serves."""
    hasty = type("Hasty", (_Connection,), limits)
    server = _Server(
        uvicorn.Config(app, http=hasty, log_level="error"), Live(None), lambda: None
    )
    here = socket.create_server(("127.0.0.1", 0))

    async def serve():
        serving = asyncio.create_task(server.serve([here]))
        async with asyncio.timeout(60):
            await story(server, here.getsockname())
            server.should_exit = True
            await serving

    asyncio.run(serve())


def test_connection_of_a_reader_that_takes_nothing_is_closed_in_time():
    async def large(request):
        return StreamingResponse(iter([b"x" * 65536] * 1000))

    async def story(server, address):
        _reader, writer = await asyncio.open_connection(*address, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while not server.server_state.connections:
            await asyncio.sleep(0.01)
        while server.server_state.connections:
            await asyncio.sleep(0.01)
        writer.transport.abort()

    serve_hastily(Starlette(routes=[Route("/", large)]), story, stalled_s=0.1)


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r\nGET"]
)
def test_connection_without_a_complete_head_is_closed_in_time(sent):
    async def story(server, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        with suppress(ConnectionResetError):
            await reader.read()

    serve_hastily(Starlette(), story, limit_s=0.1)


def test_listeners_that_leave_while_news_comes_disturb_nobody(writer, experiments):

    async def story(live):
        for leaving in range(20):
            listeners = [stream(live, "digits") for _ in range(4)]
            for events in listeners:
                async for _ in take(2, events):
                    pass
            waiting = [asyncio.ensure_future(anext(events)) for events in listeners]
            await asyncio.sleep(0)
            writer.trial(leaving, [0.5])
            while not any(task.done() for task in waiting):
                await asyncio.sleep(0)
            for task in waiting[1:]:
                task.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            errors = [each for each in ended if isinstance(each, Exception)]
            assert errors == []  # asyncio.CancelledError is none

    play(story, experiments)
