"""What a trial reserves is what it uses, and nothing of it is left when its resources are free."""

import json
import os
import signal
import subprocess
import threading
import time

import driven
import psutil
import pytest
import ray
from sockets import list_addresses, listening
from waiting import is_alive, is_rank, pids

from tuner.spec.experiment import build_spec
from tuner.spec.plan import describe_plan


def spec(folder, **fields):
    return {
        "trainable": "waiting:Waiting",
        "training": {"folder": str(folder), "epochs": 2},
        "search": {"space": {"loss": "uniform(0, 1)"}},
        "objective": {"metric": "loss"},
        "scheduler": "none",
        "seed": 1,
        **fields,
    }


def in_use():
    total = ray.cluster_resources()
    free = ray.available_resources()
    return total["CPU"] - free.get("CPU", 0.0)


def left_in_use():
    """CPUs that earlier searches have left reserved, after some time to give them back.

    Ray 2.60 never frees those of a placement group that is removed while its worker is starting.
    """
    deadline = time.monotonic() + 5
    while in_use() and time.monotonic() < deadline:
        time.sleep(0.1)
    return in_use()


def watch(stop, seen, condition=lambda used: False, reached=lambda: None):
    """Note what Ray says is in use, until told to stop; call `reached` once `condition` holds."""
    while not stop.wait(0.1):
        used = in_use()
        seen.append(used)
        if condition(used):
            reached()


def test_plan_equals_reservation_of_ray(searched, tmp_path):
    resources = {"cpus": 1, "workers": 2}
    here = int(ray.cluster_resources()["CPU"])
    fields = spec(tmp_path, resources=resources, num_samples=here, max_concurrent=here)
    plan = describe_plan(build_spec({"name": "x", **fields}), here=True)
    each = plan["a_trial_reserves"]["cpus"]
    assert plan["at_once"] == here // each
    lost = left_in_use()
    at_once = (here - lost) // each
    expected = lost + at_once * each
    ranks = 2 * at_once

    def all_run(used):
        return used == expected and len(pids(tmp_path)) >= ranks

    stop = threading.Event()
    seen = []
    started = time.monotonic()
    watcher = threading.Thread(
        target=watch,
        args=(stop, seen),
        kwargs={
            "condition": lambda used: all_run(used) or time.monotonic() > started + 120,
            "reached": (tmp_path / "open").touch,
        },
    )
    watcher.start()
    try:
        results = searched(**fields)
    finally:
        stop.set()
        watcher.join()
    assert max(seen) == expected
    threads = {
        report.metrics["threads"]
        for t in results.trials.values()
        for report in t.results
    }
    assert threads == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"]
)
def test_ranks_end_with_driver(tmp_path, number):
    path = tmp_path / "ranked.json"
    path.write_text(json.dumps(spec(tmp_path, resources={"workers": 2}, num_samples=1)))
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = driven.start("run", path, "--storage", tmp_path, cwd=tmp_path, **silent)
    try:
        deadline = time.monotonic() + 120
        while len(pids(tmp_path)) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert all(map(is_rank, pids(tmp_path)))
        ports = {address for _, address in listening(pids(tmp_path))}
        assert ports  # the ranks' meeting place
        os.killpg(process.pid, number)
        if number == signal.SIGINT:  # the trial's epoch may come to its end
            (tmp_path / "open").touch()

        def is_any_left():
            open_ports = list_addresses(psutil.net_connections("tcp"))
            is_held = not ports.isdisjoint(open_ports)
            return is_held or any(map(is_alive, pids(tmp_path)))

        deadline = time.monotonic() + 15
        while is_any_left():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
