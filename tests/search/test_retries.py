"""Which failed trials are tried again."""

import pytest

from tuner.errors import FAILURE_KINDS
from tuner.search.retries import Retries
from tuner.trial.failures import Failure

CRASH = Failure("crash", "gone")


def test_a_crash_is_tried_again_twice() -> None:
    retries = Retries()
    assert [retries.grants("0", epoch, CRASH) for epoch in (1, 2, 3)] == [True, True, False]
    assert retries.grants("1", 1, CRASH)


def test_a_crash_that_repeats_in_its_epoch_is_not_tried_a_third_time() -> None:
    retries = Retries()
    assert [retries.grants("0", 4, CRASH) for _ in range(2)] == [True, False]


def test_a_lost_node_is_not_the_trials_fault() -> None:
    retries = Retries()
    assert all(retries.grants("0", 1, Failure("node_lost", "gone")) for _ in range(9))
    assert retries.grants("0", 1, CRASH)


@pytest.mark.parametrize("kind", sorted(set(FAILURE_KINDS) - {"crash", "node_lost"}))
def test_what_would_end_the_same_is_not_tried_again(kind: str) -> None:
    assert not Retries().grants("0", 1, Failure(kind, "why"))


def test_a_device_that_is_no_longer_usable_is_tried_once_more() -> None:
    retries = Retries()
    poisoned = Failure("exception", "device-side assert", poisoned=True)
    assert [retries.grants("0", epoch, poisoned) for epoch in (1, 5)] == [True, False]
