"""Searches of a queue, each with a Ray of its own, that share the GPUs of one machine.

The machine only seems to have GPUs (`two_gpus`).
"""

import sys
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
from gated import wait_for

from tuner.experiment.results.results import Results
from tuner.service.queue.entries import Entry, Queue
from tuner.service.queue.runner import Runner, Terms
from tuner.service.queue.shares import Room

HERE = Path(__file__).parent
SPEC = {
    "trainable": "on_a_gpu:train",
    "search": {"space": {"x": "uniform(0, 1)"}},
    "objective": {"metric": "loss"},
    "scheduler": "none",
    "resources": {"cpus": 0.25, "gpus": 1},
    "num_samples": 4,
}


class Use(NamedTuple):
    """Of a GPU by a trial of a search, from when to when."""

    search: str
    gpu: float
    began: float
    last_seen: float


def use_of(trial, search):
    [gpu] = {report.metrics["gpu"] for report in trial.results}
    last = trial.results[-1].metrics
    return Use(search, gpu, last["began"], last["last_seen"])


@pytest.mark.slow
def test_shared_gpu_runs_one_search_at_a_time(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    queue = Queue(str(tmp_path / "results"))
    names = ("first", "second")
    where = {"directory": str(tmp_path), "paths": (str(HERE), *sys.path)}
    for added, name in enumerate(names):
        queue.add(
            Entry(
                name=name, user=name, added=added, spec={**SPEC, "name": name}, **where
            )
        )
    terms = Terms(2, {}, command=(sys.executable, str(HERE / "two_gpus.py")))
    more = {"notify": print, "gpus": lambda: ("0", "1")}
    runner = Runner(queue, terms, capacity=lambda gpus: Room(2, (1.0, 1.0)), **more)
    try:
        wait_for(lambda: not runner.run_turn())
    finally:
        runner._end_searches()
    assert runner.failed == 0, [queue.find_log(name).read_text() for name in names]
    trials = {
        name: Results(tmp_path / "results" / name).trials.values() for name in names
    }
    uses = [use_of(trial, name) for name in names for trial in trials[name]]
    assert len(uses) == 2 * SPEC["num_samples"]
    at_a_time = [
        (use, other)
        for use, other in combinations(uses, 2)
        if use.began < other.last_seen and other.began < use.last_seen
    ]
    assert not [pair for pair in at_a_time if pair[0].gpu == pair[1].gpu]
    assert [pair for pair in at_a_time if pair[0].search != pair[1].search]
