"""tuner refine."""

import json

import pytest
from commands import A_FUNCTION, call
from stories import search

import tuner
from tuner.planning.resolve import resolve


@pytest.fixture
def digits(here):
    """A search of 12 trials in the storage."""
    return search(here / "results" / "digits", 12, trainable=A_FUNCTION, training={})


def test_the_grid_is_an_experiment_to_run(digits):
    done = call("refine", "digits", "--points", "2")
    assert done.return_value == 0
    assert "digits-refined.yaml" in done.stdout
    spec, _ = resolve("digits-refined.yaml")
    assert (spec.search.strategy, spec.search.points) == ("grid", 2)


def test_as_json_and_where_it_is_asked_for(digits, here):
    shown = json.loads(call("refine", "digits", "--to", "mine.yaml", "--json").stdout)
    assert (here / "mine.yaml").is_file()
    assert "mine.yaml" in json.dumps(shown)


@pytest.mark.parametrize("trainable", ["elsewhere", "__main__:train (by value)"])
def test_what_only_python_can_run_is_told_as_a_call_that_does(here, monkeypatch, trainable):
    results = search(here / "results" / "far", 12, trainable=trainable, training={})
    done = call("refine", "far")
    command = done.stdout.splitlines()[-1].removeprefix("Run it with: ")
    if trainable == "elsewhere":
        with eval(command, {"tuner": tuner}) as again:
            assert again.suggest().config == results.get_best_trial().config
    else:
        given = []
        monkeypatch.setattr(tuner, "run_experiment", given.append, raising=False)
        eval(command, {"tuner": tuner, "train": lambda config: None})
        assert given[0].search.through == results.get_best_trial().config
        assert callable(given[0].trainable.value)
