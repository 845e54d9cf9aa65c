"""Extensions by name: those that ship, and the user's, which are imported only to be run."""

import sys
from typing import Any

import pytest
from fresh import ran

from tuner.errors import SpecError
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.schedulers import SCHEDULERS
from tuner.spec.strategies import SEARCHERS
from tuner.spec.validation import validate

SPACE = {"lr": "loguniform(1e-3, 1)"}
SPEC: dict[str, Any] = {
    "training": {"model": "cnn", "dataset": "digits"},
    "search": {"space": SPACE},
    "num_samples": 2,
}

SEARCHER = """
from tuner.search.searchers import numbered_searcher
from tuner.spec.strategies import SearchSettings

class Settings(SearchSettings):
    first: float = 0.5

SETTINGS = Settings

def build(settings, seed, **context):
    return numbered_searcher("halving", lambda number: {"lr": settings.first / 2**number})
"""
SCHEDULER = """
from tuner.search.schedulers import stopping_scheduler
from tuner.spec.schedulers import SchedulerSettings

class Settings(SchedulerSettings):
    worst: float = 1.0

SETTINGS = Settings

class Threshold:
    def __init__(self, worst):
        self.worst = worst

    def goes_on(self, trial_id, epoch, loss):
        return loss <= self.worst

def build(settings, objective, brackets):
    return stopping_scheduler(objective, Threshold(settings.worst))
"""


@pytest.fixture
def mine(tmp_path, monkeypatch, forget):
    """A package of the user's with a searcher and a scheduler."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "halving.py").write_text(SEARCHER)
    (package / "threshold.py").write_text(SCHEDULER)
    (package / "empty.py").write_text("")
    (package / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget("mine")
    return package


def faults(**sections):
    with pytest.raises(SpecError) as refused:
        validate({**SPEC, **sections})
    return [str(fault) for fault in refused.value.faults]


@pytest.mark.parametrize(
    "registry", [SEARCHERS, SCHEDULERS], ids=lambda registry: registry.kind
)
def test_settings_load_without_search_libraries(registry):
    names = [f"{registry.package}.{name}" for name in registry.list_names()]
    loaded = ran(f"import {', '.join(names)}").modules
    assert not loaded & {
        "ray",
        "torch",
        "scipy",
        "hyperopt",
        "sklearn",
        "pandas",
        "numpy",
    }


def test_custom_searcher_is_named_by_its_module(mine):
    search = {"strategy": "mine.halving", "space": SPACE, "first": 0.8}
    spec = validate({**SPEC, "search": search})
    searcher = spec.search.build(spec.seed)
    assert [searcher.suggest(f"{n:05d}")["lr"] for n in range(3)] == [0.8, 0.4, 0.2]
    assert faults(search={**search, "first": "x"}) == [
        "search.first: must be a number, got 'x'"
    ]
    assert "search.last: unknown key 'last'" in faults(search={**search, "last": 1})[0]


def test_custom_scheduler_is_named_by_its_module(mine):
    spec = validate(
        {**SPEC, "scheduler": {"name": "mine.threshold", "worst": 0.5, "max_t": 7}}
    )
    assert (spec.epochs, spec.brackets) == (7, 1)
    assert spec.scheduler is not None
    scheduler = spec.scheduler.build(spec.objective)
    assert scheduler.record("00000", 1, {"val_loss": 0.4})
    assert not scheduler.record("00001", 1, {"val_loss": 0.6})
    assert scheduler.stopped == {"00001"}
    assert spec.scheduler.disable_stopping().rungs() == ()
    assert spec.scheduler.stopping_text() == "mine.threshold, at 7 epochs at the latest"
    assert faults(scheduler={"name": "mine.threshold", "worst": "x"}) == [
        "scheduler.worst: must be a number, got 'x'"
    ]


def test_build_spec_imports_no_custom_code(mine):
    (mine / "halving.py").write_text("raise SystemExit('imported')")
    raw = {
        **SPEC,
        "search": {"strategy": "mine.halving", "space": SPACE, "first": 0.8},
        "scheduler": {"name": "nowhere.to.be_found", "worst": [1, {"a": None}]},
        "warm_start": "earlier",
    }
    spec = build_spec(raw)
    assert "mine" not in sys.modules
    assert spec.search.model_dump(mode="json")["first"] == 0.8
    assert ExperimentSpec.from_text(spec.to_json()) == spec
    assert ExperimentSpec.from_text(spec.to_yaml()) == spec


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (
            "mine.broken",
            "cannot be imported (ZeroDivisionError: division by zero), got 'mine.brok",
        ),
        (
            "mine.empty",
            "must be a module with SETTINGS, a SearchSettings, and a function build",
        ),
        (
            "logging.config",
            "must not be of Python's standard library, got 'logging.config'",
        ),
        (
            "_numbered",
            f"unknown search '_numbered'; available: {', '.join(SEARCHERS.list_names())}",
        ),
    ],
)
def test_invalid_extension_is_refused(mine, name, fault):
    messages = faults(search={"strategy": name, "space": {"lr": "uniform(1, 0)"}})
    assert messages[0].startswith(f"search.strategy: {fault}")
    assert "search.space.lr: uniform: lower must be at most upper" in messages[1]
