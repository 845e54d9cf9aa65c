import json
import math

import numpy as np
import pytest
import torch

from tuner.experiment.reading import LONGEST
from tuner.trial.failures import Failure
from tuner.trial.reports import LONGEST_NAME, MOST_METRICS, check_report, is_last_report


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
