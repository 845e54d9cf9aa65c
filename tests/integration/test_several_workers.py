"""Trials of two workers, or two stages, on real Ray: exact, and nothing of one outlives it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray
import torch
from several_ranks import EPOCHS, search_digits

from tuner.experiment.results.results import Results
from tuner.trial.checkpoints import load_state
from tuner.vision.image_classifier import ImageClassifier

Search = Callable[..., Results]
WAITS = ("stops", "is ended by nccl")  # in which the other rank waits too long
DONE = [f"none, but rank {rank} says done" for rank in (0, 1)]
FAULTS = ["none", *DONE, "killed", "first killed", "raises", *WAITS, "none"]


@pytest.fixture(params=["workers", pytest.param("split", marks=pytest.mark.slow)])
def together(request):
    """The results of a search whose trial has two workers, or two stages."""
    if request.param == "workers":
        return request.getfixturevalue("of_two_workers")
    return search_digits(request.getfixturevalue("searched"), split=2)


def test_two_workers_or_two_stages_equal_a_single_process(together):
    tolerance = 1e-9
    [trial] = together.trials.values()
    alone = ImageClassifier(trial.config, together.spec.constants)
    curve = [alone.step()["val_loss"] for _ in range(EPOCHS)]
    assert [value for _, value in trial.list_values("val_loss")] == pytest.approx(
        curve, abs=tolerance
    )
    checkpoint = together.best_checkpoint()
    assert checkpoint.epoch == EPOCHS
    state = load_state(checkpoint.path, None)
    for name, value in alone.state_dict()["model"].items():  # of the whole model
        torch.testing.assert_close(state["model"][name], value, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def free_before(ray_here):
    """CPUs that nothing holds before this module's searches; Ray may have lost some before."""
    everything = ray.cluster_resources()["CPU"]
    deadline = time.monotonic() + 15  # for Ray to count those of the test before
    while (free := ray.available_resources().get("CPU", 0)) < everything:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return float(free)


@pytest.fixture(scope="module")
def faulty(free_before, searched, tmp_path_factory):
    """One search whose trials go wrong on one rank, and the pids of all their ranks."""
    folder = tmp_path_factory.mktemp("faulty")
    results = searched(
        trainable="several_ranks:RankedLearner",
        training={"epochs": 3, "pids": str(folder / "pids")},
        search={"strategy": "grid", "space": {"fault": f"grid_search({FAULTS})"}},
        objective={"metric": "ranks", "mode": "max"},
        scheduler="none",
        resources={"cpus": 1, "workers": 2},
        timeouts={"report_s": 60, "ranks_s": 20},
    )
    return results, {int(pid) for pid in (folder / "pids").read_text().split()}


@pytest.mark.slow
def test_failed_rank_fails_only_its_trial(faulty):
    results, _ = faulty
    outcome = {}
    for trial in results.trials.values():
        kind = trial.error.kind if trial.error else trial.status
        outcome.setdefault(trial.config["fault"], set()).add((kind, trial.last_epoch))
    assert outcome == {
        "none": {("completed", 3)},
        DONE[0]: {("completed", 2)},
        DONE[1]: {("completed", 3)},  # it is rank 0 whose report counts
        "killed": {("crash", 1)},
        "first killed": {("crash", 1)},
        "raises": {("exception", 1)},
        "stops": {("timeout", 1)},
        "is ended by nccl": {("timeout", 1)},
    }
    # The first three, and the one after all faults
    assert results.counts["completed"] == 4
    messages = {
        t.error.message
        for t in results.trials.values()
        if t.error and t.error.kind == "timeout"
    }
    assert messages == {"a rank waited for another longer than timeouts.ranks_s, 20 s"}
    raised = next(t for t in results.trials.values() if t.config["fault"] == "raises")
    assert raised.error is not None
    assert raised.error.message.startswith(
        "ValueError: rank 1 has had enough, at several_ranks.py:"
    )
    assert ' in _misbehave: raise ValueError("rank 1' in raised.error.message
    assert "in _misbehave" in results.log_path(raised).read_text()


@pytest.mark.slow
def test_ranks_train_with_separate_threads(faulty):
    results, _ = faulty
    for trial in results.trials.values():
        assert {r.metrics["ranks"] for r in trial.results} == {2.0}
        assert {r.metrics["threads"] for r in trial.results} == {1.0}


@pytest.mark.slow
def test_ranks_end_with_trial(faulty, free_before):
    _, pids = faulty
    assert len(pids) >= 10  # a fault ends both ranks, and the next trial gets new ones
    alive = {
        pid: Path(f"/proc/{pid}/stat").read_text().split()[2]
        for pid in pids
        if _is_training(pid)
    }
    assert not alive, sorted(pids)
    deadline = time.monotonic() + 15
    while ray.available_resources().get("CPU", 0) < free_before:
        assert time.monotonic() < deadline, ray.available_resources()
        time.sleep(0.1)


def _is_training(pid):
    try:
        return "_Rank" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
