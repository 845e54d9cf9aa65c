"""The command advise."""

import json

import pytest
from commands import A_FUNCTION, call
from stories import search

from tuner.errors import UsageError


@pytest.fixture
def digits(here):
    """A search of 60 trials in the storage."""
    return search(here / "results" / "digits", 60, trainable=A_FUNCTION, training={})


def test_advise_json_has_findings_with_commands(digits):
    document = json.loads(call("advise", "digits", "--json").stdout)
    assert [*document] == ["findings"]
    for finding in document["findings"]:
        assert [*finding] == ["kind", "severity", "evidence", "action"]
        assert finding["action"]["command"].startswith("tuner ")


def test_advise_asks_for_several_hyperparameters(digits):
    shown = call("advise", "digits", "--ask", "width,lr").stdout
    assert shown.index("by width") < shown.index("by lr")
    assert isinstance(call("advise", "digits", "--ask", "nothing").exception, UsageError)
