"""What an epoch is worth, and which one names a trial's model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_stories import worth

from tuner.experiment.estimate import Curve, build_curve
from tuner.spec.sections import Objective

LOSS, LUCKY = Objective(), Objective(choose="best_epoch")
LOSSES = st.lists(
    st.integers(0, 50).map(lambda value: value / 10), min_size=1, max_size=40
)


def curve(losses, objective=LOSS):
    return build_curve(enumerate(losses, 1), objective)


@given(losses=LOSSES)
def test_estimate_is_the_weighted_mean_around_the_named_epoch(losses):
    named = curve(losses)
    assert named.loss == losses[named.epoch - 1]
    assert named.estimate == pytest.approx(worth(losses, named.epoch - 1), abs=1e-9)
    assert min(losses) - 1e-9 <= named.estimate <= max(losses) + 1e-9


@given(losses=LOSSES)
def test_named_epoch_changes_to_the_newest_alone(losses):
    growing = Curve(LOSS)
    before = None
    for epoch, loss in enumerate(losses, 1):
        is_named = growing.add(epoch, loss)
        assert growing.epoch == (epoch if is_named else before)
        before = growing.epoch


@given(
    losses=LOSSES,
    scale=st.sampled_from([0.25, 4.0]),
    shift=st.sampled_from([-8.0, 8.0]),
)
def test_named_epoch_does_not_depend_on_the_unit_or_the_mode(losses, scale, shift):
    greatest = LOSS.model_copy(update={"mode": "max"})
    negated = [-loss for loss in losses]
    moved = [scale * (loss + shift) for loss in losses]
    before = curve(losses)
    assert curve(negated, greatest).epoch == before.epoch
    expected = scale * (before.estimate + shift)
    assert curve(moved).estimate == pytest.approx(expected)


def test_lucky_epoch_does_not_win():
    noisy = [*[0.5] * 7, 0.2, *[0.5] * 8]
    steady = [*[0.5] * 7, *[0.35] * 9]
    assert curve(noisy).estimate > curve(steady).estimate
    assert curve(noisy, LUCKY).estimate == 0.2 < curve(steady, LUCKY).estimate


@pytest.mark.parametrize("objective", [LOSS, LUCKY])
def test_equal_losses_are_worth_the_same_and_the_first_is_named(objective):
    long = curve([0.3] * 30, objective)
    short = curve([0.3], objective)
    assert long.epoch == 1
    assert long.estimate == short.estimate == 0.3


def test_losses_that_are_not_finite_are_passed_over():
    holes = Curve(LOSS)
    for epoch, loss in enumerate(
        [float("nan"), float("inf"), 0.5, float("nan"), 0.5], 1
    ):
        holes.add(epoch, loss)
    assert holes.epoch == 3
    assert holes.loss == holes.estimate == 0.5
    assert Curve(LOSS).epoch is None


@given(losses=LOSSES, kept=st.sets(st.integers(1, 45)))
def test_best_of_some_epochs_is_the_named_or_the_best_of_them(losses, kept):
    named = curve(losses)
    best = named.choose_epoch(kept)
    among = sorted(kept & {*range(1, len(losses) + 1)})
    if named.epoch in kept or not among:
        assert best == (named.epoch if among else None)
        return
    assert best in among
    least = min(worth(losses, epoch - 1) for epoch in among)
    assert worth(losses, best - 1) <= least + 1e-9
