"""From an experiment's name and what is overridden to a validated spec."""

import json

import pytest
from synthetic import make_folder

from tuner.errors import SpecError, UsageError
from tuner.planning.resolve import resolve
from tuner.planning.validation import Machine


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    spec = {"search": {"space": {"lr": "loguniform(0.01, 1)"}}, "num_samples": 4}
    (tmp_path / "mine.json").write_text(json.dumps(spec))
    return tmp_path


def test_the_experiment_and_then_what_is_assigned():
    spec, source = resolve("mine.json", ["seed=1", "seed=2", "scheduler.max_t=3"])
    assert (spec.name, spec.seed, spec.epochs, spec.num_samples) == ("mine", 2, 3, 4)
    assert source.endswith("mine.json")


def test_another_strategy_over_the_same_space():
    spec, _ = resolve("mine.json", ["search.points=2"], strategy="grid")
    assert (spec.search.strategy, spec.trials) == ("grid", 2)


def test_the_next_free_name_unless_one_is_assigned(here):
    make_folder(here / "results" / "mine")
    assert resolve("mine.json")[0].name == "mine-2"
    assert resolve("mine.json", [f"storage={here}/other"])[0].name == "mine"
    with pytest.raises(UsageError, match="'mine' exists"):
        resolve("mine.json", ["name=mine"])


def test_what_the_machine_does_not_have_is_refused():
    with pytest.raises(SpecError, match=r"mine\.json has 1 fault:\n  resources\.cpus"):
        resolve("mine.json", ["resources.cpus=3"], machine=Machine(cpus=2, gpus=0))
    assert resolve("mine.json", ["resources.cpus=3"])[0].resources.cpus == 3
