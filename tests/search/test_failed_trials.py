"""Why a trial failed, and which failed trials are tried again."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import OutOfMemoryError

from tuner.errors import FAILURE_KINDS
from tuner.ray_compat import Call
from tuner.search.failed_trials import Retries, error_of, failure_of
from tuner.trial.failures import Failure
from tuner.trial.recycling import WorkerReplacedError

IN_LOG = "; its log shows where it hung"
BY_DRIVER = ", and its process did not end itself: the driver did"


def asked(method: str, ago_s: float, ended: bool = False) -> Call:
    return Call(method, time.monotonic() - ago_s, ended=ended)


def failure(error: BaseException | None = None, call: Call | None = None) -> Failure | None:
    return failure_of(error, call, report_timeout_s=60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("train", 61), f"no report in 60 s{IN_LOG}"),
        (("start", 61), f"did not start in 60 s{IN_LOG}"),
        (("reset", 61), f"did not start in 60 s{IN_LOG}"),
        (("train", 91, True), f"no report in 60 s{BY_DRIVER}"),
        (("start", 91, True), f"did not start in 60 s{BY_DRIVER}"),
    ],
)
def test_a_process_that_dies_after_long_silence_has_hung(call: Any, message: str) -> None:
    assert failure(call=asked(*call)) == Failure("timeout", message)


def test_a_process_that_dies_sooner_has_crashed() -> None:
    for call in (None, asked("train", 5)):
        found = failure(call=call)
        assert found is not None
        assert found.kind == "crash"


def test_a_known_cause_of_a_death_counts_more_than_the_silence() -> None:
    assert failure(OutOfMemoryError("1 GB used"), asked("train", 61)) == Failure("oom", "1 GB used")


def test_a_worker_that_ends_between_two_trials_is_no_fault_of_the_second() -> None:
    assert failure(WorkerReplacedError("it has kept 600 MiB")) is None
    assert failure(call=asked("reset", 91, True)) is None


@pytest.mark.parametrize(
    ("content", "found"),
    [(pickle.dumps(ValueError("x")), "ValueError('x')"), (b"torn", "None"), (b"N.", "None")],
)
def test_what_ray_wrote_of_a_death_is_read_if_it_can_be(
    tmp_path: Path, content: bytes, found: str
) -> None:
    file = tmp_path / "error.pkl"
    file.write_bytes(content)
    of: Any = SimpleNamespace(pickled_error_file=str(file))
    assert repr(error_of(of)) == found
    nothing: Any = SimpleNamespace(pickled_error_file=None)
    assert error_of(nothing) is None


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
