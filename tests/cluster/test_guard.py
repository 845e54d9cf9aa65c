"""The guard: when a driver is gone, so is what it started, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tuner.cluster import guard

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

LIMIT_S = 60
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"
TITLED = """
import sys
from ray._raylet import setproctitle
setproctitle("ray::Agent")
with open(sys.argv[1], "w"):
    print(flush=True)
    sys.stdin.read()
"""
DRIVER = """
import os, subprocess, sys, time, uuid
from tuner.cluster import guard
mark, folder = sys.argv[1:]
process = guard.start(mark, folder)
os.environ[guard.MARK] = mark
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, process.pid, flush=True)
time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # ended; whoever inherits it has not looked yet
            return True
        time.sleep(0.05)
    return False


def test_a_killed_driver_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, uuid.uuid4().hex, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with driver:
        assert driver.stdout
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        driver.send_signal(signal.SIGKILL)
    assert all(map(is_gone, pids))
    assert not folder.exists()


def test_what_does_not_listen_is_made_to_end(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-c", f"{DEAF}; time.sleep(600)"],
        env={**os.environ, guard.MARK: mark},
        stdout=subprocess.PIPE,
    ) as deaf:
        assert deaf.stdout
        deaf.stdout.readline()
        assert guard.marked(mark, str(tmp_path)) == [deaf.pid]
        # the parent must take it away, or it stays in /proc as a zombie without an environment
        guard.end(mark, str(tmp_path))
        assert deaf.wait(LIMIT_S) == -signal.SIGKILL


def test_a_daemon_whose_title_hides_the_mark_is_known_by_its_open_file(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TITLED, str(tmp_path / "agent.log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as titled:
        assert titled.stdout
        titled.stdout.readline()
        assert guard.marked(uuid.uuid4().hex, str(tmp_path)) == [titled.pid]
        assert guard.marked(uuid.uuid4().hex, str(tmp_path / "agent")) == []
        titled.kill()


def test_others_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        env={**os.environ, guard.MARK: uuid.uuid4().hex},
        stdin=subprocess.PIPE,
    ) as other:
        guard.end(uuid.uuid4().hex, str(tmp_path))
        assert other.poll() is None


def test_an_orderly_end_removes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    (folder / "inner").mkdir(parents=True)
    with guard.start(uuid.uuid4().hex, str(folder)):
        assert folder.exists()
    assert not folder.exists()
