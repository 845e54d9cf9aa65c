"""The server's process: what it refuses, prints, and how it ends."""

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import uvicorn
from sockets import listening, outside
from starlette.applications import Starlette
from starlette.routing import Route
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.serve.app import Application
from tuner.serve.live import Live
from tuner.serve.server import _listening, _Server, check_host, check_pair


def test_others_reach_it_over_tls_or_by_an_explicit_word_alone():
    check_host("127.0.0.1", is_tls=False, is_insecure=False)
    check_host("0.0.0.0", is_tls=True, is_insecure=False)
    check_host("0.0.0.0", is_tls=False, is_insecure=True)
    for host in ("0.0.0.0", "::", "192.0.2.1", "gpu.example"):
        with pytest.raises(UsageError, match="can be reached by others"):
            check_host(host, is_tls=False, is_insecure=False)


def test_a_certificate_and_its_key_go_together(tmp_path):
    assert not check_pair(None, None)
    file = tmp_path / "x.pem"
    file.write_text("no certificate")
    with pytest.raises(UsageError, match="--cert and --key go together"):
        check_pair(file, None)
    with pytest.raises(UsageError, match="are no pair for TLS"):
        check_pair(file, file)


def test_a_port_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1, port {port}: "):
            _listening("127.0.0.1", port)


def started(tmp_path, *arguments):
    """A server of one experiment, and the URL that it prints."""
    if not (tmp_path / "digits").exists():
        writer = Writer(make_folder(tmp_path / "digits"))
        writer.trial(0, [0.5])
        writer.end()
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "serve", "--port", "0", "--storage", tmp_path, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return process, process.stdout.readline().strip()


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read().decode()


def test_it_serves_this_machine_until_a_signal_comes_with_a_stream_open(tmp_path):
    process, url = started(tmp_path)
    base, port, token = re.fullmatch(r"(http://127\.0\.0\.1:(\d+))/\?token=(\S{43})", url).groups()
    assert outside([process.pid]) == []
    assert len(listening([process.pid])) == 1
    bearer = {"Authorization": f"Bearer {token}"}
    assert '"name":"digits"' in get(f"{base}/api/experiments", **bearer)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{base}/api/experiments")
    stream = urllib.request.urlopen(urllib.request.Request(f"{base}/api/events", headers=bearer))
    assert stream.readline() == b"event: experiments\n"
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    stream.close()
    assert process.returncode == 0
    tunnel = rf"ssh -L {port}:127\.0\.0\.1:{port} \S+"
    assert re.fullmatch(rf"from another machine: {tunnel}, then open the same address\n", told)


def test_what_an_end_cuts_short_is_no_error_to_tell(capfd):
    async def report(request):
        server.handle_exit(signal.SIGTERM, None)
        await asyncio.sleep(60)

    app = Application(Starlette(routes=[Route("/", report)]), Live(None))
    config = uvicorn.Config(app.asgi, log_level="warning", timeout_graceful_shutdown=0.05)
    server = _Server(config, app)
    listening = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(listening.getsockname()) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        server.run(sockets=[listening])
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_over_tls_it_serves_others_until_it_is_interrupted(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run(
        ["openssl", *made, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    process, url = started(tmp_path, "--host", "0.0.0.0", "--cert", cert, "--key", key)
    port, token = re.fullmatch(r"https://[^/]+:(\d+)/\?token=(\S+)", url).groups()
    trusted = ssl.create_default_context(cafile=cert)
    trusted.check_hostname = False
    asked = urllib.request.Request(
        f"https://localhost:{port}/api/experiments", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, context=trusted) as answer:
        assert b"digits" in answer.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    process.communicate()
