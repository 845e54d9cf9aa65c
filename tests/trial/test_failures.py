"""The names of failures, and the check of a report."""

import json
import math
import pickle
import re
import sys
from importlib import import_module

import numpy as np
import pytest
import torch

from tuner.errors import FAILURE_KINDS
from tuner.experiment.reading import LONGEST
from tuner.trial.failures import (
    LONGEST_NAME,
    MOST_METRICS,
    Failure,
    check_report,
    failure_of,
    keep_origin,
    origin_of,
    says_done,
)


@pytest.mark.parametrize(
    ("text", "poisons"),
    [
        ("an illegal memory access was encountered", True),
        ("unknown error", True),
        ("the MPS client has been terminated by the server", True),
        ("all CUDA-capable devices are busy or unavailable", True),
        ("invalid argument", False),
        ("no kernel image is available for execution on the device", False),
    ],
)
def test_after_some_texts_of_cudas_a_process_cannot_go_on(text, poisons):
    error = torch.AcceleratorError(f"CUDA error: {text}\nCUDA kernel errors might be asynchronous")
    assert failure_of(error).poisoned == poisons


class Unspeakable(RuntimeError):
    def __str__(self):
        return str(1 / 0)

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("wrong shape:\n  3"), "exception", "ValueError: wrong shape: 3"),
        (SystemExit(0), "exception", "SystemExit: 0"),
        (MemoryError(), "oom", "MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory."), "oom", "OutOfMemoryError: CUDA out of mem"),
        (RuntimeError("CUDA error: out of memory"), "oom", "RuntimeError: CUDA error: out of"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), "oom", "RuntimeError: cuDNN"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "oom", "RuntimeError: D"),
        (RuntimeError("CUDA error: device-side assert triggered"), "exception", "RuntimeError: CU"),
        (ValueError("ran out of memory cards"), "exception", "ValueError: ran"),
        (Unspeakable(), "exception", "Unspeakable: (its text cannot be shown: ZeroDivisionError)"),
    ],
)
def test_an_exception_has_a_kind_and_one_line(error, kind, message):
    failure = failure_of(error)
    assert failure.kind == kind
    assert failure.message.startswith(message)
    assert failure.kind in FAILURE_KINDS


def test_a_long_message_is_cut():
    message = failure_of(ValueError("x" * 10_000)).message
    assert len(message) == 1000
    assert message.endswith("x...")


def test_message_of_a_torchvision_of_another_build_says_what_to_install():
    inner = "Failed to import x: operator torchvision::nms does not exist"
    message = failure_of(RuntimeError(inner)).message
    assert message.startswith(f"RuntimeError: {inner}: torch and torchvision are of different bu")


def test_a_message_ends_with_the_last_line_of_the_users_own_code():
    try:
        json.loads("{")
    except ValueError as error:
        message = failure_of(error).message
    assert message.startswith("JSONDecodeError: Expecting property name")
    assert re.search(r', at \S*test_failures\.py:\d+ in test_a_\w+: json\.loads\("\{"\)$', message)


@pytest.mark.parametrize(
    "value", [0.5, 1, np.float32(0.5), np.int64(1), np.array(0.5), torch.tensor(0.5)]
)
def test_scalars_of_every_kind_count(value):
    metrics, left_out, failure = check_report({"m": value}, "m")
    assert metrics == {"m": pytest.approx(float(value))}
    assert type(metrics["m"]) in (int, float)
    assert (left_out, failure) == ([], None)


@pytest.mark.parametrize(
    ("value", "is_last"),
    [(True, True), (np.True_, True), (torch.tensor(True), True), (False, False), (None, False)],
)
def test_a_report_says_that_it_is_the_last_and_that_is_no_metric(value, is_last):
    report = {"m": 0.5, "done": value}
    assert says_done(report) == is_last
    assert check_report(report, "m") == ({"m": 0.5}, [], None)


@pytest.mark.parametrize(
    ("report", "kind", "message"),
    [
        (None, "bad_report", "reported NoneType, not a mapping of metrics"),
        ([("m", 1)], "bad_report", "reported list, not a mapping"),
        ({}, "bad_report", "did not report 'm'; it reported nothing"),
        ({"b": 1, "a": 2}, "bad_report", "did not report 'm'; it reported a, b"),
        ({"m": None}, "bad_report", "'m' is no number: None"),
        ({"m": "0.5"}, "bad_report", "'m' is no number: '0.5'"),
        ({"m": torch.tensor([1.0, 2.0])}, "bad_report", "'m' is no number: tensor"),
        ({"m": math.nan}, "nan", "'m' is nan"),
        ({"m": torch.tensor(math.inf)}, "nan", "'m' is inf"),
        ({"m": -math.inf}, "nan", "'m' is -inf"),
        ({"m": 10**400}, "nan", "'m' is inf"),
    ],
)
def test_a_report_without_the_objective_is_a_failure(report, kind, message):
    metrics, left_out, failure = check_report(report, "m")
    assert (metrics, left_out, failure.kind) == ({}, [], kind)
    assert failure.message.startswith(message)


def test_a_report_of_more_metrics_than_a_journal_takes_is_bad():
    report = {"m": 1.0, **{f"w{number}": 0.0 for number in range(MOST_METRICS)}}
    metrics, _, failure = check_report(report, "m")
    assert metrics == {}
    assert failure == Failure("bad_report", "reported more than 5,000 metrics")
    del report["w0"]
    assert len(check_report(report, "m")[0]) == MOST_METRICS


def test_a_metric_with_too_long_a_name_is_bad():
    failure = check_report({"m": 1.0, "n" * 201: 0.5}, "m")[2]
    told = f"reported a metric whose name has 201 characters; it may have 200: {'n' * 60}..."
    assert failure == Failure("bad_report", told)
    assert check_report({"m": 1.0, "n" * 200: 0.5}, "m")[2] is None


@pytest.mark.parametrize("names", [["left"], ["left", "right"]])
def test_a_report_that_contains_itself_is_bad(names):
    report = {"m": 1.0}
    report |= dict.fromkeys(names, report)
    assert check_report(report, "m")[2].kind == "bad_report"


def test_the_largest_report_fits_into_a_line_of_the_journal():
    name, number = "\N{PILE OF POO}" * LONGEST_NAME, -2.2250738585072014e-308
    assert MOST_METRICS * len(json.dumps({name: number})) < LONGEST - (1 << 20)


def test_other_values_that_are_no_finite_numbers_are_left_out():
    report = {"m": 1.0, "nan": math.nan, "text": "x", "flag": True, "many": np.ones(3), 7: 2}
    metrics, left_out, failure = check_report(report, "m")
    assert (metrics, failure) == ({"m": 1.0, "7": 2}, None)
    assert left_out == ["nan", "text", "flag", "many"]


def test_what_mappings_within_hold_is_named_as_tune_names_it():
    report = {"loss": 1.0, "val": {"acc": 0.5, "of": {3: np.float32(0.25), "name": "x"}}, "no": {}}
    metrics, left_out, failure = check_report(report, "val/acc")
    assert (metrics, failure) == ({"loss": 1.0, "val/acc": 0.5, "val/of/3": 0.25}, None)
    assert left_out == ["val/of/name"]
    assert check_report(report, "val")[2].message.startswith("did not report 'val'; it reported lo")


MODULE = """
import json

def step(text):
    x = (json
         .loads(text))

def own(f):
    f()
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of a package of the user's."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "train.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("my_package.train")
    for name in ("my_package.train", "my_package"):
        del sys.modules[name]


def raised(call, *arguments):
    try:
        call(*arguments)
    except BaseException as error:
        return error
    raise AssertionError


def test_it_is_the_users_last_line_however_deep_the_error_lies(mine):
    assert origin_of(raised(mine.step, "{")) == "train.py:5 in step: x = (json"


def test_it_is_none_where_no_line_of_the_users_was_run():
    assert origin_of(ValueError("never raised")) is None
    error = raised(json.loads, "{")
    error = error.with_traceback(error.__traceback__.tb_next)  # without this file
    assert origin_of(error) is None


def test_code_without_a_file_is_named_without_its_line():
    exec(compile("def cell():\n    1 / 0\n", "<ipython-input-3>", "exec"), scope := {})
    assert origin_of(raised(scope["cell"])) == "<ipython-input-3>:2 in cell"
    exec(compile("def made():\n    1 / 0\n", "<string>", "exec"), scope)
    error = raised(scope["made"])
    assert origin_of(error).split(": ")[1] == "call(*arguments)"  # of this file


def test_it_is_kept_on_the_way_to_another_process(mine):
    error = raised(mine.own, lambda: {}["lr"])
    origin = origin_of(error)
    keep_origin(error)
    assert origin_of(pickle.loads(pickle.dumps(error))) == origin
    other = RuntimeError("in its place")
    keep_origin(other, of=error)
    assert origin_of(other) == origin


def test_of_what_is_raised_from_another_error_it_is_that_ones(mine):
    error = RuntimeError("never raised")
    error.__cause__ = raised(mine.step, "{")
    assert origin_of(error) == "train.py:5 in step: x = (json"
