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
    build_failure,
    check_report,
    find_origin,
    is_last_report,
    keep_origin,
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
def test_some_cuda_errors_poison_the_process(text, poisons):
    error = torch.AcceleratorError(f"CUDA error: {text}\nCUDA kernel errors might be asynchronous")
    assert build_failure(error).poisoned == poisons


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
def test_failure_of_exception_has_kind_and_one_line(error, kind, message):
    failure = build_failure(error)
    assert failure.kind == kind
    assert failure.message.startswith(message)
    assert failure.kind in FAILURE_KINDS


def test_failure_of_long_message_is_cut():
    message = build_failure(ValueError("x" * 10_000)).message
    assert len(message) == 1000
    assert message.endswith("x...")


def wrapped(error):
    outer = RuntimeError("cannot load the data")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (FileNotFoundError(2, "No such file or directory", "data/a.pt"), True),
        (FileNotFoundError(2, "No such file or directory", b"data/a.pt"), True),
        (FileNotFoundError("[Errno 2] unable to open file: name = 'data/a.pt'"), True),
        (wrapped(FileNotFoundError(2, "No such file or directory", "data/a.pt")), True),
        (FileNotFoundError(2, "No such file or directory", "data/b.pt"), False),
        (FileNotFoundError(2, "No such file or directory", "/data/a.pt"), False),
        (FileNotFoundError(2, "No such file or directory", "data/a.pt\0" + 300 * "a"), False),
        (ValueError("what is 'data/a.pt'?"), False),
    ],
)
def test_failure_of_file_where_the_search_began_names_start_dir(tmp_path, monkeypatch, error, hint):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.pt").touch()
    monkeypatch.setenv("TUNER_START_DIR", str(tmp_path))
    text = "; data/a.pt lies where the search was started: open tuner.start_dir() / 'data/a.pt'"
    assert build_failure(error).message.endswith(text) is hint


def test_failure_of_ends_with_the_last_user_line():
    try:
        json.loads("{")
    except ValueError as error:
        message = build_failure(error).message
    assert message.startswith("JSONDecodeError: Expecting property name")
    assert re.search(r', at \S*test_failures\.py:\d+ in test_\w+: json\.loads\("\{"\)$', message)


@pytest.mark.parametrize(
    "value", [0.5, 1, np.float32(0.5), np.int64(1), np.array(0.5), torch.tensor(0.5)]
)
def test_check_report_accepts_every_scalar(value):
    metrics, left_out, failure = check_report({"m": value}, "m")
    assert metrics == {"m": pytest.approx(float(value))}
    assert type(metrics["m"]) in (int, float)
    assert (left_out, failure) == ([], None)


@pytest.mark.parametrize(
    ("value", "is_last"),
    [(True, True), (np.True_, True), (torch.tensor(True), True), (False, False), (None, False)],
)
def test_says_done_is_no_metric(value, is_last):
    report = {"m": 0.5, "done": value}
    assert is_last_report(report) == is_last
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
def test_check_report_without_objective_fails(report, kind, message):
    metrics, left_out, failure = check_report(report, "m")
    assert (metrics, left_out, failure.kind) == ({}, [], kind)
    assert failure.message.startswith(message)


def test_check_report_without_a_limited_metric_fails():
    report = {"m": 1, "nan": math.nan, "ms": None, "size": 2}
    metrics, _, failure = check_report(report, "m", ["size", "nan", "ms"])
    assert metrics == {}
    assert (failure.kind, failure.message) == (
        "bad_report",
        "did not report 'ms', which the objective needs, as a number; it reported m, size",
    )
    assert check_report({"m": 1, "ms": 2}, "m", ["ms"]) == ({"m": 1, "ms": 2}, [], None)


@pytest.mark.parametrize("part", ["acc", "val.acc", "val"])
def test_check_report_says_how_a_limit_names_a_metric_with_a_slash(part):
    _, _, failure = check_report({"m": 1, "val": {"acc": 0.5}}, "m", [part])
    assert failure.message.endswith("it reported m, val/acc; in a limit write value('val/acc')")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_check_report_takes_nan_of_any_required_metric_for_nan(value):
    metrics, left_out, failure = check_report({"m": 1, "other": value}, "m", ["other"])
    assert (metrics, left_out, failure) == ({}, [], Failure("nan", f"'other' is {value}"))


def test_check_report_limits_the_number_of_metrics_and_the_length_of_names():
    report = {"m": 1.0, **{f"w{number}": 0.0 for number in range(MOST_METRICS)}}
    metrics, _, failure = check_report(report, "m")
    assert metrics == {}
    assert failure == Failure("bad_report", "reported more than 5,000 metrics")
    del report["w0"]
    assert len(check_report(report, "m")[0]) == MOST_METRICS
    failure = check_report({"m": 1.0, "n" * 201: 0.5}, "m")[2]
    message = f"reported a metric whose name has 201 characters; it may have 200: {'n' * 60}..."
    assert failure == Failure("bad_report", message)
    assert check_report({"m": 1.0, "n" * 200: 0.5}, "m")[2] is None


@pytest.mark.parametrize("names", [["left"], ["left", "right"]])
def test_check_report_of_recursive_mapping_fails(names):
    report = {"m": 1.0}
    report |= dict.fromkeys(names, report)
    assert check_report(report, "m")[2].kind == "bad_report"


def test_largest_report_fits_a_journal_line():
    name = "\N{PILE OF POO}" * LONGEST_NAME
    number = -2.2250738585072014e-308
    assert MOST_METRICS * len(json.dumps({name: number})) < LONGEST - (1 << 20)


def test_check_report_omits_other_values():
    report = {"m": 1.0, "nan": math.nan, "text": "x", "flag": True, "many": np.ones(3), 7: 2}
    metrics, left_out, failure = check_report(report, "m")
    assert (metrics, failure) == ({"m": 1.0, "7": 2}, None)
    assert left_out == ["nan", "text", "flag", "many"]


def test_check_report_flattens_nested_mappings():
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
def user_module(tmp_path, monkeypatch):
    """A module of a package of the user's."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package/train.py").write_text(MODULE)
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


def test_origin_of_is_the_last_user_line(user_module):
    assert find_origin(raised(user_module.step, "{")) == "train.py:5 in step: x = (json"


def test_origin_of_without_user_line_is_none():
    assert find_origin(ValueError("never raised")) is None
    error = raised(json.loads, "{")
    error = error.with_traceback(error.__traceback__.tb_next)  # without this file
    assert find_origin(error) is None


def test_origin_of_code_without_a_file_has_no_source():
    exec(compile("def cell():\n    1 / 0\n", "<ipython-input-3>", "exec"), scope := {})
    assert find_origin(raised(scope["cell"])) == "<ipython-input-3>:2 in cell"
    exec(compile("def made():\n    1 / 0\n", "<string>", "exec"), scope)
    error = raised(scope["made"])
    assert find_origin(error).split(": ")[1] == "call(*arguments)"  # of this file


def test_keep_origin_survives_pickling(user_module):
    error = raised(user_module.own, lambda: {}["lr"])
    origin = find_origin(error)
    keep_origin(error)
    assert find_origin(pickle.loads(pickle.dumps(error))) == origin
    other = RuntimeError("in its place")
    keep_origin(other, of=error)
    assert find_origin(other) == origin


def test_origin_of_chained_error_is_that_of_its_cause(user_module):
    error = RuntimeError("never raised")
    error.__cause__ = raised(user_module.step, "{")
    assert find_origin(error) == "train.py:5 in step: x = (json"
