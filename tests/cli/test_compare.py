"""tuner compare."""

import json

import pytest
from commands import call
from stories import search


@pytest.fixture
def digits(here):
    """A search of 12 trials in the storage."""
    return search(here / "results" / "digits", 12)


def test_experiments_are_compared(digits, tmp_path):
    search(tmp_path / "results" / "more", 12, seed=1)
    shown = call("compare", "digits", "more").stdout
    assert shown.startswith("random by val_accuracy (max), 2 experiments\n")
    document = json.loads(call("compare", "digits", "more", "--json", "--html", "page.html").stdout)
    assert [one["name"] for one in document["strategies"][0]["experiments"]] == ["digits", "more"]
    assert (tmp_path / "page.html").stat().st_size > 1_000_000
    assert "two experiments or more, got 1" in str(call("compare", "digits").exception)
