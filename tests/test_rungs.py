"""Rung arithmetic: the decisions are those of Ray Tune's ASHA."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from ray.tune.schedulers.async_hyperband import _Bracket

from tuner.rungs import Rungs, milestones

scores = st.floats(-10, 10).map(lambda x: round(x, 2))
streams = st.lists(st.tuples(st.integers(0, 9), scores), max_size=120)


def test_milestones() -> None:
    assert list(milestones(10, 1, 3)) == [1, 3, 9]
    assert list(milestones(9, 1, 3)) == [1, 3]
    assert list(milestones(1000, 1, 10)) == [1, 10, 100]
    assert list(milestones(5, 5, 2)) == []


def test_the_first_to_reach_a_rung_goes_on_and_a_worse_one_does_not() -> None:
    rungs = Rungs(max_t=9, grace_period=1, reduction_factor=3)
    assert rungs.goes_on("0", 1, 0.5)
    assert not rungs.goes_on("1", 1, 0.4)
    assert rungs.goes_on("2", 1, 0.6)


@given(streams, st.sampled_from([(10, 1, 3), (27, 1, 3), (10, 2, 2), (16, 1, 4)]))
def test_decides_as_rays_asha(stream: list[tuple[int, float]], shape: tuple[int, int, int]) -> None:
    max_t, grace, factor = shape
    ours = Rungs(max_t=max_t, grace_period=grace, reduction_factor=factor)
    theirs = _Bracket(grace, max_t, factor, 0)
    epochs = dict.fromkeys(range(10), 0)
    for number, score in stream:
        epochs[number] += 1
        if epochs[number] >= max_t:  # a trial at its end is over, whatever its value
            continue
        trial = SimpleNamespace(trial_id=str(number))
        expected = theirs.on_result(trial, epochs[number], score) == "CONTINUE"
        assert ours.goes_on(str(number), epochs[number], score) == expected


@given(streams)
def test_the_same_reports_rebuild_the_same_rungs(stream: list[tuple[int, float]]) -> None:
    def replay() -> Rungs:
        rungs = Rungs(max_t=27, grace_period=1, reduction_factor=3)
        for epoch, (number, score) in enumerate(stream, start=1):
            rungs.goes_on(str(number), epoch, score)
        return rungs

    assert vars(replay()) == vars(replay())
