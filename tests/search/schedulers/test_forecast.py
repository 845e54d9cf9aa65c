"""The settings of stopping by prediction."""

import pytest

from tuner.search.schedulers.forecast import ForecastSettings
from tuner.spec.settings import parse


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ({"max_t": 3, "grace_period": 4}, "grace_period: must be at most max_t, got 4 and 3"),
        ({"peers": 1}, "peers: must be at least 2, got 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(raw, fault):
    _, faults = parse(ForecastSettings, raw)
    assert fault in "\n".join(map(str, faults))


def test_rungs_begin_with_the_grace_period():
    assert ForecastSettings(max_t=50).rungs() == (1, 2, 3, 4, 7, 12, 19, 31)
    assert ForecastSettings(max_t=50, grace_period=5).rungs() == (7, 12, 19, 31)
    alone = ForecastSettings(max_t=5, grace_period=5)
    assert alone.stopping_text() == "none: the grace period is as long as a trial"
