"""Requests of users and changes by resumes as text."""

from datetime import datetime

import pytest

from tuner.experiment.steered import Answer
from tuner.reporting.control_text import (
    format_changes,
    format_control,
    format_dated_request,
)

CONTROLS = (
    {"verb": "stop-trial", "trial_id": "00003"},
    {"verb": "max-concurrent", "max_concurrent": None},
    {"verb": "time-budget", "time_budget_s": 5400.0},
    {"verb": "try", "config": {"lr": 0.01, "batch_size": 64}},
    {"verb": "\x1b[2Jfinish"},
)


def test_control_text_is_what_a_user_types(snapshot):
    snapshot("\n".join(map(format_control, CONTROLS)))


def test_change_lines_have_time_and_epochs(snapshot):
    made = datetime(2026, 11, 22, 20, 10).timestamp()
    longer = {"was": {"scheduler.max_t": 10}, "is": {"scheduler.max_t": 20}}
    odd = {"was": {"\x1b[2J": "\x07"}, "is": {"\x1b[2J": None}}
    when = {"time": made, "after_epochs": 60}
    snapshot("\n".join(format_changes([when | longer, when | odd])))
    assert format_changes([]) == []


@pytest.mark.parametrize(
    "answer", [{}, {"time": 0}, {"time": 0, "refused": "it has\x1b ended"}]
)
def test_request_line_says_what_came_of_it(snapshot, answer):
    shown = format_dated_request({"control": {"verb": "pause"}, "by": "ann", **answer})
    snapshot(shown, varying={r"\d{4}-\d\d-\d\d \d\d:\d\d": "WHEN"})


def test_request_line_of_an_answer_without_a_user(tmp_path):
    answer = Answer("1", 0.0, {"verb": "pause"})
    assert format_dated_request(answer.as_dict()).endswith("  pause")
