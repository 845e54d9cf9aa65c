"""tuner confirm, of leaders that were retrained before: what it says, and that it asks no Ray."""

import json

import pytest
from commands import A_FUNCTION, call
from confirmed import FOUND, retrained, searched


@pytest.fixture
def search(here):
    results = searched(here / "results" / "digits", FOUND, trainable=A_FUNCTION, training={})
    retrained(results, [[0.88, 0.90], [0.91, 0.94]])
    return results


def test_what_retraining_has_shown_is_printed(search):
    done = call("confirm", "digits", "--top", "2", "--seeds", "2")
    assert done.return_value == 0
    assert done.stdout.startswith("digits: the 2 leaders retrained with 2 fresh seeds each")
    assert f"importing {A_FUNCTION} (" in done.stderr


def test_its_numbers_are_json(search):
    shown = json.loads(call("confirm", "digits", "--top", "2", "--seeds", "2", "--json").stdout)
    assert [leader["trial_id"] for leader in shown["leaders"]] == ["00002", "00001"]
    assert shown["test"] is None  # a plain function measures no test split
