"""ASHA: the decisions are those of Ray Tune's, but for ties, in the brackets of Hyperband."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune.schedulers.async_hyperband import _Bracket

from tuner.search.schedulers.asha import AshaSettings, Brackets, draw_lot
from tuner.spec.settings import parse

losses = st.floats(-10, 10).map(lambda x: round(x, 2))
streams = st.lists(st.tuples(st.integers(0, 9), losses), max_size=120)
shapes = st.sampled_from(
    [(10, 1, 3), (27, 1, 3), (10, 2, 2), (16, 1, 4), (9, 1, 2.5), (5, 5, 2)]
)


def asha(max_t, grace_period, reduction_factor):
    return AshaSettings(
        max_t=max_t, grace_period=grace_period, reduction_factor=reduction_factor
    )


@pytest.mark.parametrize(
    "raw",
    [
        {"reduction_factor": 1},
        {"max_t": 3, "grace_period": 4},
        {"max_t": 10, "reduction_factor": 3, "brackets": 5},
        {"brackets": 0},
        {"max_t": 10, "reduction_factor": 1.0000000000000002},
        {"max_t": 10**9, "reduction_factor": 1.2},
    ],
)
def test_settings_that_cannot_work_are_refused(snapshot, raw):
    _, faults = parse(AshaSettings, raw)
    snapshot("\n".join(map(str, faults)))


unequal = st.lists(
    st.tuples(st.integers(0, 9), losses), max_size=120, unique_by=lambda x: x[1]
)


@given(unequal, st.sampled_from([(10, 1, 3), (27, 1, 3), (10, 2, 2), (16, 1, 4)]))
def test_rungs_without_ties_decide_as_rays_asha(stream, shape):
    max_t, grace, factor = shape
    ours = Brackets(asha(*shape))
    rays = _Bracket(grace, max_t, factor, 0)
    epochs = dict.fromkeys(range(10), 0)
    for number, loss in stream:
        epochs[number] += 1
        if epochs[number] >= max_t:  # a trial at its end is over, whatever its value
            continue
        trial = SimpleNamespace(trial_id=str(number))
        expected = rays.on_result(trial, epochs[number], -loss) == "CONTINUE"
        assert ours.goes_on(str(number), epochs[number], loss) == expected


@given(shapes, st.integers(0, 40), st.data())
def test_lengthened_keeps_rungs_and_brackets(shape, more, data):
    short = asha(*shape)
    longer = short.extend(short.max_t + more)
    assert AshaSettings.model_validate(dict(longer)) == longer
    assert longer.max_t == short.max_t + more
    assert [rung for rung in longer.rungs() if rung < short.max_t] == list(
        short.rungs()
    )
    assert bool(longer.rungs()) == bool(short.rungs())
    count = data.draw(st.integers(1, short.max_brackets))
    assert longer.max_brackets == short.max_brackets
    assert longer.compute_shares(count) == short.compute_shares(count)
    before = Brackets(short, count).choose_bracket
    after = Brackets(longer, count).choose_bracket
    assert [*map(before, range(30))] == [*map(after, range(30))]
    assert longer.extend(longer.max_t + 5).compute_shares(
        count
    ) == short.compute_shares(count)


def test_shares_are_those_of_hyperband():
    # max_t 81, grace 1, factor 3: Hyperband's brackets hold 81, 34, 15, 8 and 5 configs
    rounded = [81, 34, 15, 8, 5]
    for share, configs in zip(asha(81, 1, 3).compute_shares(5), rounded, strict=True):
        assert share == pytest.approx(configs / sum(rounded), abs=0.01)


@given(streams, shapes, st.data())
def test_brackets_stop_no_trial_early_or_by_another_bracket(stream, shape, data):
    settings = asha(*shape)
    count = data.draw(st.integers(1, settings.max_brackets))
    starts = settings.list_starts(count)
    every = Brackets(settings, count)
    alone = [Brackets(settings, count) for _ in starts]
    epochs = Counter()
    for number, loss in stream:
        epochs[number] += 1
        bracket = every.choose_bracket(number)
        goes_on = every.goes_on(f"{number:05}", epochs[number], loss)
        assert goes_on or epochs[number] >= starts[bracket]
        assert goes_on == alone[bracket].goes_on(f"{number:05}", epochs[number], loss)


def test_expected_epochs_follow_from_the_rungs():
    # all run 1 epoch, a third of them 2 more, a ninth of them 6 more, and 1 more of 27 the last
    assert asha(10, 1, 3).estimate_epochs(1) == pytest.approx(
        1 + 2 / 3 + 6 / 9 + 1 / 27
    )
    assert asha(10, 10, 3).estimate_epochs(1) == 10
    (first, second) = asha(9, 1, 3).compute_shares(2)
    expected = first * (1 + 2 / 3 + 6 / 9) + second * (3 + 6 / 3)
    assert asha(9, 1, 3).estimate_epochs(2) == pytest.approx(expected)


@given(
    st.lists(st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float), max_size=80),
    st.sampled_from([1.5, 2, 2.7, 3, 4, 10]),
)
def test_cutoff_is_numpys_percentile_to_the_last_bit(losses, reduction_factor):
    rungs = Brackets(asha(2, 1, reduction_factor))
    for number, loss in enumerate(losses):
        scores = [-before for before in losses[:number]]
        share = (1 - 1 / reduction_factor) * 100
        expected = not scores or bool(-loss >= np.percentile(scores, share))
        goes_on = rungs.goes_on(str(number), 1, loss)
        # Which its lot decides
        assert goes_on == expected or (expected and -loss in scores)


@pytest.mark.parametrize("reduction_factor", [2, 3, 4])
def test_rungs_with_equal_losses_stop_by_lot(reduction_factor):
    def share(losses):
        rungs = Brackets(asha(2, 1, reduction_factor))
        return sum(rungs.goes_on(f"{n:05}", 1, x) for n, x in enumerate(losses)) / len(
            losses
        )

    assert share([0.9] * 2000) == pytest.approx(1 / reduction_factor, abs=0.03)
    chance = [0.9 if number % 5 < 3 else number / 1e4 % 0.5 for number in range(1000)]
    # With factor 2, Ray's lets them all go on
    assert share(chance) <= 1 / reduction_factor + 0.05


def test_lot_of_a_trial_stays_the_same_between_versions():
    assert draw_lot("00007") == pytest.approx(0.1849796, abs=1e-6)
