import json
import math

import numpy as np
import pytest
import torch

from tuner.experiment.reading import LONGEST
from tuner.trial.failures import Failure
from tuner.trial.reports import LONGEST_NAME, MOST_METRICS, check_report, is_last_report

SCALARS = [0.5, 1, np.float32(0.5), np.int64(1), np.array(0.5), torch.tensor(0.5)]
REPORTS = [
    *({"m": value} for value in SCALARS),
    *(None, [("m", 1)], {}, {"b": 1, "a": 2}),
    *({"m": value} for value in (None, "0.5", torch.tensor([1.0, 2.0]))),
    *({"m": value} for value in (math.nan, torch.tensor(math.inf), -math.inf, 10**400)),
    {"m": 1.0, "nan": math.nan, "text": "x", "flag": True, "many": np.ones(3), 7: 2},
    {"m": 1.0, "val": {"acc": 0.5, "of": {3: np.float32(0.25), "name": "x"}}, "no": {}},
]


def test_check_report_keeps_scalars_and_names_faults(snapshot):
    checked = (check_report(report, "m") for report in REPORTS)
    snapshot("\n".join(map(str, checked)))


LIMITED = [
    ({"m": 1, "nan": math.nan, "ms": None, "size": 2}, ["size", "nan", "ms"]),
    ({"m": 1, "ms": 2}, ["ms"]),
    *(
        ({"m": 1, "val": {"acc": 0.5}}, [part])
        for part in ("acc", "val.acc", "val", "val/acc")
    ),
    *(
        ({"m": 1, "other": value}, ["other"])
        for value in (math.nan, math.inf, -math.inf)
    ),
]


def test_check_report_needs_the_metrics_of_limits(snapshot):
    checked = (check_report(report, "m", names) for report, names in LIMITED)
    snapshot("\n".join(map(str, checked)))


@pytest.mark.parametrize(
    ("value", "is_last"),
    [
        (True, True),
        (np.True_, True),
        (torch.tensor(True), True),
        (False, False),
        (None, False),
    ],
)
def test_says_done_is_no_metric(value, is_last):
    report = {"m": 0.5, "done": value}
    assert is_last_report(report) == is_last
    assert check_report(report, "m") == ({"m": 0.5}, [], None)


@pytest.mark.parametrize("names", [["left"], ["left", "right"]])
def test_check_report_of_recursive_mapping_fails(names):
    report = {"m": 1.0}
    report |= dict.fromkeys(names, report)
    assert check_report(report, "m")[2].kind == "bad_report"


def test_largest_report_fits_a_journal_line():
    name = "\N{PILE OF POO}" * LONGEST_NAME
    number = -2.2250738585072014e-308
    assert MOST_METRICS * len(json.dumps({name: number})) < LONGEST - (1 << 20)


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
