"""Memory that runs short: who is ended, and what is told of it."""

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tuner.spec import quotas
from tuner.trial import machine_memory
from tuner.trial.worker_death import NOTES, death_of

GIB = 1 << 30
LIMIT_S = 60
WORKER = """
import sys
held = b"x" * (int(sys.argv[1]) << 20)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker():
    """Starts a process of a title that holds so many MiB."""
    processes = []

    def start(title, mib):
        process = subprocess.Popen(
            [title, "-S", "-c", WORKER, str(mib)],  # its command line is known by the title alone
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        process.stdout.readline()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_this_machine_tells():
    free, total = machine_memory.free_and_all()
    assert 0 < free < total


@pytest.mark.parametrize(("limit", "counts"), [(1_000_000, True), (1 << 60, False)])
def test_of_a_control_group_its_limit_counts(monkeypatch, limit, counts):
    limited = quotas.Limit(limit, Path("memory.max")), limit - 500_000
    monkeypatch.setattr(quotas, "memory_limit", lambda: limited)
    assert (machine_memory.free_and_all() == (500_000, 1_000_000)) is counts
    assert machine_memory.free_and_all()[1] <= psutil.virtual_memory().total


def test_the_worker_that_holds_the_most_is_ended_and_its_death_is_told(
    worker, tmp_path, monkeypatch
):
    idle, large = worker("ray::IDLE", 300), worker("ray::LearnerTrial.step", 200)
    agent = worker("ray::RuntimeEnvAgent", 300)
    other, small = worker("python", 400), worker("ray::LearnerTrial.step", 20)
    pids = [process.pid for process in (idle, agent, large, other, small)]
    free = [2 * GIB]
    monkeypatch.setenv(NOTES, str(tmp_path))
    with machine_memory.watched(tmp_path, lambda: pids, lambda: (free[0], 32 * GIB)):
        time.sleep(1)
        assert large.poll() is None
        free[0] = GIB // 2
        pids_seen = large.wait(LIMIT_S)
        free[0] = 2 * GIB
    assert pids_seen == -9
    assert [process.poll() for process in (idle, agent, other, small)] == [None] * 4
    [note] = tmp_path.iterdir()
    assert note.name == f"{large.pid}-oom"
    death = death_of(RuntimeError(f"its worker process has died. pid: {large.pid} namespace: x"))
    assert death.kind == "oom"
    assert death.message.endswith(" MiB, the most of all workers: memory ran out")
    assert death_of(RuntimeError(f"pid: {small.pid} has died")).kind == "crash"


def test_with_nobody_to_end_nothing_happens(tmp_path):
    nobody, nothing_free = (lambda: [1, 2**22 + 1]), (lambda: (0, 32 * GIB))
    with machine_memory.watched(tmp_path, nobody, nothing_free):
        time.sleep(0.5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "total", "short"), [(3, 80, True), (5, 80, False), (1023, 1 << 20, True)]
)
def test_what_is_short_goes_by_the_size_of_the_machine(free, total, short):
    assert machine_memory.is_short(free << 20, total << 20) is short


def test_what_a_worker_has_started_counts_as_its_own(tmp_path):
    held = "held = b'x' * (300 << 20); print(flush=True); import time; time.sleep(60)"
    command = [sys.executable, "-S", "-c", held]
    parent = f"import subprocess; subprocess.run({command!r})"
    title = "ray::CommandTrial.step"
    worker = subprocess.Popen([title, "-S", "-c", parent], executable=sys.executable, stdout=-1)
    worker.stdout.readline()
    [child] = psutil.Process(worker.pid).children()
    with machine_memory.watched(tmp_path, lambda: [worker.pid], lambda: (0, 32 * GIB)):
        worker.wait(LIMIT_S)
    child.kill()
    worker.stdout.close()
    [note] = tmp_path.glob(f"{worker.pid}-*")
    assert re.search(r"ended at 3\d\d MiB", note.read_text())
