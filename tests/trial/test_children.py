"""Processes that a trial leaves running."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tuner.trial.children import Children

SLEEP = "import time; print('here', flush=True); time.sleep(60)"


@pytest.fixture
def children(monkeypatch):
    monkeypatch.setenv("TUNER_TRIAL", "")  # which is put back
    return Children()


def start(*command, **options):
    """A process, once it runs its own program."""
    child = subprocess.Popen([sys.executable, "-c", SLEEP, *command], stdout=-1, **options)
    child.stdout.readline()
    return child


def end(child):
    child.kill()
    child.wait()
    child.stdout.close()


def test_what_is_started_before_stays_and_what_is_started_after_ends(children):
    before = start()
    children.begin()
    after, detached = start(), start(start_new_session=True)
    assert children.end() == 2
    assert [after.wait(), detached.wait()] == [-signal.SIGKILL] * 2
    assert before.poll() is None
    assert children.end() == 0
    for child in (before, after, detached):
        end(child)


def test_what_has_left_its_parent_ends_too(children, tmp_path):
    """As a daemon does: its parent is gone, and its session is its own."""
    children.begin()
    told = tmp_path / "pid"
    daemon = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 60"
    subprocess.run(f"setsid sh -c '{daemon}' & exit", shell=True, check=True)
    deadline = time.monotonic() + 30
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    pid = int(told.read_text())
    assert children.end() == 1
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail(f"{pid} still runs")


def test_what_a_library_starts_once_for_its_process_stays(children):
    children.begin()
    tracker = start("from multiprocessing.resource_tracker import main")
    assert children.end() == 0
    assert tracker.poll() is None
    end(tracker)


KILLED = """
import os, subprocess, sys
from tuner.trial.children import Children
children = Children()
children.begin()
children.guard()
for own in (True, False):
    child = subprocess.Popen(["sleep", "60"], start_new_session=own, stdout=subprocess.DEVNULL)
    print(child.pid)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_guard_ends_what_a_killed_process_has_started():
    done = subprocess.run([sys.executable, "-c", KILLED], stdout=-1, text=True)
    assert done.returncode == -signal.SIGKILL
    pids = [*map(int, done.stdout.split())]
    assert len(pids) == 2
    while any(map(is_running, pids)):
        time.sleep(0.05)


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
