"""What decides in a search, by its spec."""

import pytest

from tuner.experiment.events import RESULT, TRIAL_STARTED
from tuner.search.driver import scheduler_of, searcher_of
from tuner.search.schedulers._stopping import InOrder
from tuner.spec.experiment import build_spec


def spec_of(**changes):
    space = {"lr": "uniform(0, 1)"}
    return build_spec({"search": {"space": space}, "num_samples": 9, **changes})


def test_scheduler_of_a_spec_without_rules_stops_none():
    assert type(scheduler_of(spec_of(scheduler=None))) is InOrder


@pytest.mark.parametrize("scheduler", [None, {"name": "asha", "max_t": 9}])
def test_scheduler_of_adds_patience(scheduler):
    built = scheduler_of(spec_of(scheduler=scheduler, stop={"patience_epochs": 2}))
    answers = [built.record("00000", epoch, {"val_loss": 1.0}) for epoch in (1, 2, 3)]
    assert answers == [True, True, False]


@pytest.mark.parametrize("strategy", ["random", "bohb"])
def test_searcher_of_reads_all_earlier_events(strategy):
    earlier = iter(
        [
            {"event": TRIAL_STARTED, "trial_id": "00000", "config": {"lr": 0.5}},
            {"event": RESULT, "trial_id": "00000", "epoch": 1, "metrics": {"val_loss": 1.0}},
        ]
    )
    spec = spec_of(search={"strategy": strategy, "space": {"lr": "uniform(0, 1)"}})
    searcher = searcher_of(spec, earlier)
    assert list(earlier) == []
    if strategy == "bohb":
        assert list(searcher.observations.trials) == ["00000"]
