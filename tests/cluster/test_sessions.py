"""Sessions of ours, known by their processes."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tuner.cluster import access, guard, sessions
from tuner.cluster.sessions import forgotten_folders, listeners

WORKER = "import sys; print(flush=True); sys.stdin.read()"
SERVER = """
import socket, sys
from ray._raylet import setproctitle
sockets = [socket.create_server((host, 0)) for host in sys.argv[1:]]
setproctitle("ray::IDLE")
print(*(s.getsockname()[1] for s in sockets), flush=True)
sys.stdin.read()
"""


def started(code, *arguments, **environment):
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    return child, child.stdout.readline().split()


def session_in(folder):
    return next((s for s in sessions.sessions() if s.folder == folder), None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "TEMPORARY", str(tmp_path))
    folder = tmp_path / f"{access.PREFIX}x"
    folder.mkdir()
    access.for_own_ray(folder)
    return folder


def test_a_session_lives_as_long_as_its_driver_and_is_left_over_without(folder):
    mark = uuid.uuid4().hex
    environment = {guard.MARK: mark, access.TOKEN_PATH: str(folder / "auth_token")}
    watch = guard.start(mark, str(folder))
    worker, _ = started(WORKER, **environment)
    with worker:
        try:
            running = session_in(folder)
            assert (running.driver, running.pids) == (os.getpid(), (worker.pid,))
            assert forgotten_folders([running]) == []
        finally:
            watch.kill()
            watch.wait()
        left_over = session_in(folder)
        assert (left_over.driver, left_over.pids) == (None, (worker.pid,))
        worker.communicate()
    assert session_in(folder) is None
    assert forgotten_folders([]) == [folder]
    watch.stdin.close()


def test_only_folders_of_ours_are_forgotten_ones(folder):
    (folder / "auth_token").unlink()
    assert forgotten_folders([]) == []


def test_who_listens_where(tmp_path):
    server, ports = started(SERVER, "127.0.0.1", "0.0.0.0", **{access.AUTH_MODE: "disabled"})
    with server:
        found = [one for one in listeners([]) if str(one.port) in ports]
        server.communicate()
    assert [(one.process, one.reach, one.is_open) for one in found] == [
        ("worker", "127.0.0.1", False),
        ("worker", "all addresses", True),
    ]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize(("mode", "token"), [("token", True), ("disabled", False)])
def test_who_asks_for_a_token(mode, token):
    worker, _ = started(WORKER, **{access.AUTH_MODE: mode})
    with worker:
        assert sessions.asks_for_token(worker.pid) is token
        worker.communicate()
    assert sessions.asks_for_token(worker.pid) is False
