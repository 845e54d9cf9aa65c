"""An experiment in a few numbers; tests/results/test_listing.py has them for each strategy."""

import pytest
from synthetic import Writer, make_folder

from tuner.results.described import Described
from tuner.results.outcome import Outcome, strategy_of, total_of
from tuner.results.results import Results


def test_an_outcome_is_that_of_the_journal(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5, 0.4], end="stopped")
    writer.trial(1, [0.9], error=("oom", "m"))
    writer.end()
    results = Results(writer.folder)
    assert results.outcome == Outcome(
        status="completed",
        counts={"completed": 0, "stopped": 1, "failed": 1, "running": 0, "interrupted": 0},
        best=0.5,
        started=results.history.started,
        searched_s=results.history.duration_s,
        ended_by=None,
        total=4,
    )


@pytest.mark.parametrize(
    ("search", "strategy"),
    [(None, ""), ([], ""), ({"strategy": "of.mine"}, "of.mine"), ({}, "random")],
)
def test_of_a_spec_that_cannot_be_read_what_it_says_is_told(tmp_path, search, strategy):
    folder = make_folder(tmp_path / "digits", search=search, num_samples="many")
    assert strategy_of(Described(folder)) == strategy
    assert total_of(Described(folder)) is None
