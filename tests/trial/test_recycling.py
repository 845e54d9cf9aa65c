import gc
import weakref

import pytest
import torch
from test_worker import plan

from tuner.trial.assignment import Assignment
from tuner.trial.failures import Failure
from tuner.trial.recycling import BOUND_MIB, Leftovers, why_not_again
from tuner.trial.worker import Worker


@pytest.mark.parametrize(
    ("failure", "grown_mib", "reason"),
    [
        (None, 0, None),
        (None, BOUND_MIB, None),
        (None, BOUND_MIB + 1, "it has kept 513 MiB of earlier trials"),
        (Failure("nan", ""), 0, None),
        (Failure("bad_report", ""), 0, None),
        (Failure("exception", ""), 0, "a trial failed in it (exception)"),
        (Failure("oom", ""), 0, "a trial failed in it (oom)"),
        (Failure("exception", "", poisoned=True), 0, "its device cannot be used any more"),
    ],
)
def test_when_a_process_is_not_used_again(failure, grown_mib, reason):
    assert why_not_again(failure=failure, grown_mib=grown_mib) == reason


def test_what_is_kept_counts_from_the_end_of_the_first_trial():
    held = iter([300.0, 290.0, 350.0])
    leftovers = Leftovers(lambda: next(held))
    assert [leftovers.clear() for _ in range(3)] == [0, 0, 50]


def test_after_the_first_trial_only_what_is_new_is_searched_for_garbage():
    gc.unfreeze()
    leftovers = Leftovers()
    leftovers.clear()
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < 1000
    cycle = [torch.ones(1)]
    cycle.append(cycle)
    tensor = weakref.ref(cycle[0])
    del cycle
    leftovers.clear()
    assert tensor() is None
    gc.unfreeze()


class Hoarder:
    """Makes 40 MiB of tensors; with `keep` the module holds on to them."""

    hoard: list[torch.Tensor] = []  # noqa: RUF012

    def __init__(self, config, constants, *, device, rank, world_size):
        self.weights = torch.ones(40 << 18)
        if config["keep"]:
            self.hoard.append(self.weights)

    def step(self):
        return {}


def test_what_a_worker_keeps_between_trials_is_measured(tmp_path):
    worker = Worker(plan(tmp_path, trainable="test_recycling:Hoarder"))
    grown = []
    for keep in (False, False, False, True, True):
        worker.begin(Assignment("00000", {"keep": keep}))
        weights = weakref.ref(worker._learner.weights)
        grown.append(worker.end())
        assert (weights() is not None) == keep
    Hoarder.hoard.clear()
    gc.collect()
    assert max(grown[:3]) < 15
    assert grown[3] == pytest.approx(40, abs=15)
    assert grown[4] == pytest.approx(80, abs=15)
