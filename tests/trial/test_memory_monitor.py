import re
import subprocess
import sys
from pathlib import Path
from threading import Semaphore

import psutil
import pytest

from tuner.spec import quotas
from tuner.trial.memory_monitor import measure_memory, watch_memory
from tuner.trial.worker_death import NOTES, build_death_failure

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
            # Its command line is known by the title alone
            [title, "-S", "-c", WORKER, str(mib)],
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


@pytest.mark.parametrize(("limit", "counts"), [(1_000_000, True), (1 << 60, False)])
def test_free_and_all_respects_control_group_limit(limit, counts):
    limited = quotas.Limit(limit, Path("memory.max")), limit - 500_000
    measured = measure_memory(lambda: limited)
    assert (measured == (500_000, 1_000_000)) is counts
    assert measured[1] <= psutil.virtual_memory().total


def test_watched_ends_the_largest_worker_and_writes_a_note(
    worker, tmp_path, monkeypatch
):
    idle = worker("ray::IDLE", 300)
    large = worker("ray::LearnerTrial.step", 200)
    agent = worker("ray::RuntimeEnvAgent", 300)
    other = worker("python", 400)
    small = worker("ray::LearnerTrial.step", 20)
    pids = [process.pid for process in (idle, agent, large, other, small)]
    free = [2 * GIB]
    measured = Semaphore(0)

    def free_and_all():
        measured.release()
        return free[0], 32 * GIB

    monkeypatch.setenv(NOTES, str(tmp_path))
    with watch_memory(tmp_path, lambda: pids, free_and_all):
        for _ in range(2):  # as it asks again, it has ended nobody before
            assert measured.acquire(timeout=LIMIT_S)
        assert large.poll() is None
        free[0] = GIB // 2
        pids_seen = large.wait(LIMIT_S)
        free[0] = 2 * GIB
    assert pids_seen == -9
    assert [process.poll() for process in (idle, agent, other, small)] == [None] * 4
    [note] = tmp_path.iterdir()
    assert note.name == f"{large.pid}-oom"
    death = build_death_failure(
        RuntimeError(f"its worker process has died. pid: {large.pid} namespace: x")
    )
    assert death.kind == "oom"
    assert death.message.endswith(" MiB, the most of all workers: memory ran out")
    assert (
        build_death_failure(RuntimeError(f"pid: {small.pid} has died")).kind == "crash"
    )


def test_watched_counts_children_of_a_worker(tmp_path):
    held = "held = b'x' * (300 << 20); print(flush=True); import time; time.sleep(60)"
    command = [sys.executable, "-S", "-c", held]
    parent = f"import subprocess; subprocess.run({command!r})"
    title = "ray::CommandTrial.step"
    worker = subprocess.Popen(
        [title, "-S", "-c", parent], executable=sys.executable, stdout=-1
    )
    worker.stdout.readline()
    [child] = psutil.Process(worker.pid).children()
    with watch_memory(tmp_path, lambda: [worker.pid], lambda: (0, 32 * GIB)):
        worker.wait(LIMIT_S)
    child.kill()
    worker.stdout.close()
    [note] = tmp_path.glob(f"{worker.pid}-*")
    assert re.search(r"ended at 3\d\d MiB", note.read_text())
