"""What watches in the background ends with its context, whatever ends that."""

import threading

import pytest

from tuner import background


def test_it_runs_within_and_is_over_afterwards():
    seen = []

    def watch(over):
        seen.append("begun")
        over.wait()
        seen.append("over")

    before = threading.active_count()
    with pytest.raises(KeyError), background.running(watch):
        raise KeyError
    assert seen == ["begun", "over"]
    assert threading.active_count() == before


def test_one_that_ends_by_itself_is_no_matter():
    with background.running(lambda over: None):
        pass
