"""The first epoch at which trials are stopped: as written, or by their number."""

import pytest

from tuner.search.schedulers.asha import AshaSettings


@pytest.mark.parametrize(
    ("trials", "first"),
    [
        (8, 50),
        (9, 17),
        (26, 17),
        (27, 6),
        (81, 2),
        (243, 1),
        (10**6, 1),
    ],
)
def test_settled_with_few_trials_has_a_late_first_rung(trials, first):
    settled = AshaSettings(max_t=50, reduction_factor=3).settle(trials)
    assert settled.grace_period == first
    rungs = len(settled.rungs())
    assert not rungs or trials / 3**rungs >= 3
