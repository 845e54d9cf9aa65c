"""The guard: when a driver or a trial has ended, so has what it started, and nothing else."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from patience import LIMIT_S, is_gone, wait_until

from tuner.trial import guard
from tuner.trial.guard import Children

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="needs /proc"
)

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
from tuner.trial import guard
mark, folder = sys.argv[1:]
process = guard.start(mark, folder)
os.environ[guard.MARK] = mark
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, process.pid, flush=True)
time.sleep(600)
"""


def test_guard_ends_everything_of_a_killed_driver(tmp_path):
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
    wait_until(lambda: all(map(is_gone, pids)))
    assert not folder.exists()


def test_end_kills_a_process_that_ignores_sigterm(tmp_path):
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-c", f"{DEAF}; time.sleep(600)"],
        env={**os.environ, guard.MARK: mark},
        stdout=subprocess.PIPE,
    ) as deaf:
        assert deaf.stdout
        deaf.stdout.readline()
        assert guard.find_marked(mark, str(tmp_path)) == [deaf.pid]
        # the parent must take it away, or it stays in /proc as a zombie without an environment
        guard.end(mark, str(tmp_path), patience_s=0.2)
        assert deaf.wait(LIMIT_S) == -signal.SIGKILL


def test_marked_finds_a_daemon_by_its_open_file(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", TITLED, str(tmp_path / "agent.log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as titled:
        assert titled.stdout
        titled.stdout.readline()
        assert guard.find_marked(uuid.uuid4().hex, str(tmp_path)) == [titled.pid]
        assert guard.find_marked(uuid.uuid4().hex, str(tmp_path / "agent")) == []
        titled.kill()


# --- what a trial leaves running


@pytest.fixture
def children(monkeypatch):
    monkeypatch.setenv("TUNER_TRIAL", "")  # which is put back
    return Children()


def start(*command, **options):
    """A process, once it runs its own program."""
    sleep = "import time; print('here', flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", sleep, *command], stdout=-1, **options
    )
    child.stdout.readline()
    return child


def end(child):
    child.kill()
    child.wait()
    child.stdout.close()


def test_children_end_only_those_started_after_begin(children):
    before = start()
    children.begin()
    after = start()
    detached = start(start_new_session=True)
    assert children.end() == 2
    assert [after.wait(), detached.wait()] == [-signal.SIGKILL] * 2
    assert before.poll() is None
    assert children.end() == 0
    for child in (before, after, detached):
        end(child)


def test_children_end_detached_processes(children, tmp_path):
    """As a daemon does: its parent is gone, and its session is its own."""
    children.begin()
    pid_file = tmp_path / "pid"
    pid_file.touch()
    daemon = (
        f"echo $$ > {pid_file}; exec sleep 60"  # no other process that may still end
    )
    subprocess.run(f"setsid sh -c '{daemon}' & exit", shell=True, check=True)
    wait_until(lambda: pid_file.read_text().endswith("\n"))
    pid = int(pid_file.read_text())
    assert children.end() == 1
    wait_until(lambda: is_gone(pid))


def test_children_keep_processes_of_libraries(children):
    children.begin()
    tracker = start("from multiprocessing.resource_tracker import main")
    assert children.end() == 0
    assert tracker.poll() is None
    end(tracker)


KILLED = """
import os, subprocess, sys, tempfile
from tuner.trial.guard import Children
children = Children()
children.begin()
children.start_guard()
folder = tempfile.mkdtemp()
children.remove_at_death(folder)
print(folder)
for own in (True, False):
    child = subprocess.Popen(["sleep", "60"], start_new_session=own, stdout=subprocess.DEVNULL)
    print(child.pid)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_guard_ends_what_a_killed_process_has_started():
    done = subprocess.run([sys.executable, "-c", KILLED], stdout=-1, text=True)
    assert done.returncode == -signal.SIGKILL
    folder, *pids = done.stdout.split()
    assert len(pids) == 2
    wait_until(lambda: all(map(is_gone, map(int, pids))) and not os.path.exists(folder))
