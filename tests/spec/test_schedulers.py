"""The section `scheduler`: by its name or with settings, none, and what a plan says of it."""

from typing import Any

import pytest

from tuner.errors import SpecError
from tuner.spec.experiment import build_spec
from tuner.spec.schedulers import SCHEDULERS

MINIMAL: dict[str, Any] = {
    "search": {"space": {"lr": "uniform(0, 1)"}},
    "num_samples": 3,
}


@pytest.mark.parametrize("strategy", ["random", "bayesopt", "mixed"])
@pytest.mark.parametrize("unnamed", [{}, {"max_t": 5}, {"max_t": 5, "grace_period": 2}])
def test_unnamed_scheduler_is_asha_for_every_strategy(strategy, unnamed):
    search = {**MINIMAL["search"], "strategy": strategy}
    spec = build_spec({**MINIMAL, "search": search, "scheduler": unnamed})
    assert spec.scheduler == SCHEDULERS.load_settings("asha").model_validate(unnamed)
    assert spec.dump_values()["scheduler"]["name"] == "asha"


@pytest.mark.parametrize("none", ["none", {"name": "none"}, None])
def test_scheduler_may_be_none(none):
    assert build_spec({**MINIMAL, "scheduler": none}).scheduler is None


def test_scheduler_none_accepts_max_t_alone(snapshot):
    for written in (
        {"name": "none", "max_t": 4},
        {"name": "asha", "max_t": 4, "grace_period": 4},
    ):
        spec = build_spec({**MINIMAL, "scheduler": written})
        assert spec.epochs == 4
        assert spec.scheduler is not None
        assert spec.scheduler.rungs() == ()
    with snapshot.raises(SpecError):
        build_spec(
            {**MINIMAL, "scheduler": {"name": "none", "max_t": 4, "grace_period": 3}}
        )
    with snapshot.raises(SpecError):
        build_spec({**MINIMAL, "scheduler": {"name": "none", "max_t": 0}})
