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
from tuner.service.app import Live
from tuner.service.server import _listening, _Server, check_host, check_pair


def test_check_host_rejects_public_address_without_tls_or_insecure():
    check_host("127.0.0.1", is_tls=False, is_insecure=False)
    check_host("0.0.0.0", is_tls=True, is_insecure=False)
    check_host("0.0.0.0", is_tls=False, is_insecure=True)
    for host in ("0.0.0.0", "::", "192.0.2.1", "gpu.example"):
        with pytest.raises(UsageError, match="can be reached by others"):
            check_host(host, is_tls=False, is_insecure=False)


def test_check_pair_rejects_incomplete_or_invalid_pair(tmp_path):
    assert not check_pair(None, None)
    file = tmp_path / "x.pem"
    file.write_text("no certificate")
    with pytest.raises(UsageError, match="--cert and --key go together"):
        check_pair(file, None)
    with pytest.raises(UsageError, match="are no pair for TLS"):
        check_pair(file, file)


def test_listening_rejects_taken_port():
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


def test_serve_ends_on_signal_with_an_open_stream(tmp_path):
    process, url = started(tmp_path)
    base, token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=(\S{43})", url).groups()
    assert outside([process.pid]) == []
    assert len(listening([process.pid])) == 1
    bearer = {"Authorization": f"Bearer {token}"}
    assert '"name":"digits"' in get(f"{base}/api/experiments", **bearer)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{base}/api/experiments")
    stream = urllib.request.urlopen(urllib.request.Request(f"{base}/api/events", headers=bearer))
    assert stream.readline() == b"event: experiments\n"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    stream.close()
    assert process.returncode == 0
    assert stderr == ""


def test_server_end_logs_no_interrupted_answer(capfd):
    async def report(request):
        server.handle_exit(signal.SIGTERM, None)
        await asyncio.sleep(60)

    app = Starlette(routes=[Route("/", report)])
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=0.05)
    server = _Server(config, Live(None))
    listening = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(listening.getsockname()) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        server.run(sockets=[listening])
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_serve_over_tls_until_interrupted(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run(
        ["openssl", *made, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    process, url = started(tmp_path, "--host", "0.0.0.0", "--cert", cert, "--key", key)
    port, token = re.fullmatch(r"https://[^/]+:(\d+)/\?token=(\S+)", url).groups()
    trusted = ssl.create_default_context(cafile=cert)
    trusted.check_hostname = False
    request = urllib.request.Request(
        f"https://localhost:{port}/api/experiments", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, context=trusted) as answer:
        assert b"digits" in answer.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    process.communicate()
