"""tuner refine."""

import json

import pytest
from commands import A_FUNCTION, call
from stories import search

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
