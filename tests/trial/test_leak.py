import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.trial.leak import EPOCHS, LEAST_MIB, first_growth, steady_growth


def test_growth_needs_every_one_of_the_last_epochs():
    rising = [100.0 + 3 * epoch for epoch in range(EPOCHS + 2)]
    assert steady_growth(rising) == 3
    assert steady_growth(rising[:-1]) is None  # one epoch fewer
    for epoch in range(2, len(rising)):
        flat = rising.copy()
        flat[epoch] = flat[epoch - 1]
        assert steady_growth(flat) is None


@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_memory_that_does_not_grow_is_never_a_leak(samples):
    assert steady_growth(sorted(samples, reverse=True)) is None
    growth = steady_growth(samples)
    assert growth is None or growth >= LEAST_MIB


@given(st.floats(100, 1e5), st.lists(st.floats(0, LEAST_MIB / 2), max_size=30))
def test_small_steps_are_no_leak(start, steps):
    assert steady_growth(list(np.cumsum([start, *steps]))) is None


def test_growth_that_ended_is_still_known():
    rising = [100.0 + 3 * epoch for epoch in range(EPOCHS + 2)]
    flat = [rising[-1]] * 10
    assert first_growth(rising[:-1] + [rising[-2]] * 10) is None
    assert steady_growth(rising + flat) is None
    assert first_growth(rising + flat) == 3
    assert first_growth([]) is None
