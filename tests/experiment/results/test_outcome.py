"""An experiment in a few numbers; test_listing.py has them for each strategy."""

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.results.described import Described
from tuner.experiment.results.outcome import Outcome, strategy_of, trials_of
from tuner.experiment.results.results import Results


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


def test_trials_that_were_asked_for_beside_the_search_s_own_are_counted_as_to_be_run(tmp_path):
    folder = make_folder(tmp_path / "digits", num_samples=1)
    with_others = Writer(folder)
    with_others.trial(1, [0.5])
    with_others.trial(2, [0.6])  # before the number of samples was made less
    for number in range(2):
        asked = {"verb": "try", "config": {"lr": number}}
        with_others.add("control", id=f"{number}", control=asked)
    with_others.end()
    assert Results(folder).outcome.total == 4


@pytest.mark.parametrize(
    ("search", "strategy"),
    [(None, ""), ([], ""), ({"strategy": "of.mine"}, "of.mine"), ({}, "random")],
)
def test_of_a_spec_that_cannot_be_read_what_it_says_is_told(tmp_path, search, strategy):
    folder = make_folder(tmp_path / "digits", search=search, num_samples="many")
    assert strategy_of(Described(folder)) == strategy
    assert trials_of(Described(folder)) is None


@pytest.mark.parametrize(("samples", "total"), [(None, 108), (100_000, 108), (50, 50)])
def test_outcome_of_a_grid_counts_no_more_trials_than_it_has(tmp_path, samples, total):
    sizes = {"a": range(6), "b": range(6), "c": range(3)}
    space = {name: f"choice({list(size)})" for name, size in sizes.items()}
    search = {"strategy": "grid", "space": space}
    folder = make_folder(tmp_path / "digits", search=search, num_samples=samples)
    Writer(folder).kill()
    assert Results(folder).outcome.total == total
