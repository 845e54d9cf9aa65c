"""Rung arithmetic: the decisions are those of Ray Tune's ASHA."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune.schedulers.async_hyperband import _Bracket

from tuner.spec.rungs import (
    Brackets,
    Rungs,
    bracket_of,
    expected_epochs,
    milestones,
    most_brackets,
    shares,
    too_many,
)

scores = st.floats(-10, 10).map(lambda x: round(x, 2))
shapes = st.sampled_from([(10, 1, 3), (27, 1, 3), (10, 2, 2), (16, 1, 4), (9, 1, 2.5), (5, 5, 2)])
streams = st.lists(st.tuples(st.integers(0, 9), scores), max_size=120)


def test_milestones() -> None:
    assert list(milestones(10, 1, 3)) == [1, 3, 9]
    assert list(milestones(9, 1, 3)) == [1, 3]
    assert list(milestones(1000, 1, 10)) == [1, 10, 100]
    assert list(milestones(5, 5, 2)) == []


def test_rungs_without_end_are_told_from_few() -> None:
    assert not too_many(10**9, 1, 1.3)
    assert not too_many(5, 5, 1.0000000000000002)
    assert too_many(10**9, 1, 1.2)
    assert too_many(10, 1, 1.0000000000000002)


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


def test_brackets_are_as_many_as_rungs_and_one_that_stops_none() -> None:
    assert most_brackets(10, 1, 3) == 4
    assert most_brackets(5, 5, 2) == 1


def test_shares_are_hyperbands() -> None:
    # max_t 81, grace 1, factor 3: Hyperband's brackets hold 81, 34, 15, 8 and 5 configs
    rounded = [81, 34, 15, 8, 5]
    exact = shares(5, 81, 1, 3)
    for share, configs in zip(exact, rounded, strict=True):
        assert share == pytest.approx(configs / sum(rounded), abs=0.01)


@given(shapes, st.data())
def test_trials_are_spread_over_the_brackets_by_their_shares(
    shape: tuple[int, int, float], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, most_brackets(*shape)))
    wanted = shares(count, *shape)
    first = data.draw(st.integers(0, 10**6))
    seen = Counter(bracket_of(number, wanted) for number in range(first, first + 200))
    assert sum(wanted) == pytest.approx(1)
    assert set(seen) <= set(range(count))
    for bracket, share in enumerate(wanted):
        assert abs(seen[bracket] - 200 * share) <= 5  # evenly, not by chance
    assert bracket_of(0, wanted) == 0


@given(streams, shapes)
def test_one_bracket_decides_as_its_rungs(
    stream: list[tuple[int, float]], shape: tuple[int, int, float]
) -> None:
    names = dict(zip(("max_t", "grace_period", "reduction_factor"), shape, strict=True))
    one, rungs = Brackets(count=1, **names), Rungs(**names)  # type: ignore[arg-type]
    for epoch, (number, score) in enumerate(stream, start=1):
        assert one.goes_on(str(number), epoch, score) == rungs.goes_on(str(number), epoch, score)


@given(streams, shapes, st.data())
def test_no_trial_is_stopped_before_its_bracket_begins_nor_by_another(
    stream: list[tuple[int, float]], shape: tuple[int, int, float], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, most_brackets(*shape)))
    max_t, grace, factor = shape
    starts = [*milestones(*shape), max_t]
    wanted = shares(count, *shape)
    every = Brackets(count=count, max_t=max_t, grace_period=grace, reduction_factor=factor)
    alone = [
        Rungs(max_t=max_t, grace_period=starts[b], reduction_factor=factor) for b in range(count)
    ]
    epochs: Counter[int] = Counter()
    for number, score in stream:
        epochs[number] += 1
        bracket = bracket_of(number, wanted)
        goes_on = every.goes_on(f"{number:05}", epochs[number], score)
        assert goes_on or epochs[number] >= starts[bracket]
        assert goes_on == alone[bracket].goes_on(f"{number:05}", epochs[number], score)


def test_how_long_a_trial_is_expected_to_last():
    # all run 1 epoch, a third of them 2 more, a ninth of them 6 more, and 1 more of 27 the last
    assert expected_epochs(1, 10, 1, 3) == pytest.approx(1 + 2 / 3 + 6 / 9 + 1 / 27)
    assert expected_epochs(1, 10, 10, 3) == 10
    (first, second) = shares(2, 9, 1, 3)
    expected = first * (1 + 2 / 3 + 6 / 9) + second * (3 + 6 / 3)
    assert expected_epochs(2, 9, 1, 3) == pytest.approx(expected)
