"""What was asked of a search that ran, and what resumes changed of it, in words."""

from datetime import datetime

import pytest

from tuner.experiment.steered import Answer
from tuner.reporting.control_text import (
    answer_text,
    change_lines,
    control_lines,
    control_text,
)


@pytest.mark.parametrize(
    ("control", "text"),
    [
        ({"verb": "pause"}, "pause"),
        ({"verb": "stop-trial", "trial_id": "00003"}, "stop-trial 00003"),
        ({"verb": "max-concurrent", "max_concurrent": 4}, "max-concurrent 4"),
        ({"verb": "max-concurrent", "max_concurrent": None}, "max-concurrent none"),
        ({"verb": "time-budget", "time_budget_s": 5400.0}, "time-budget 1h 30m"),
        ({"verb": "time-budget", "time_budget_s": None}, "time-budget none"),
        ({"verb": "try", "config": {"lr": 0.01, "batch_size": 64}}, "try lr=0.01 batch_size=64"),
        ({"verb": "\x1b[2Jfinish"}, " [2Jfinish"),
    ],
)
def test_a_control_is_told_as_one_would_ask_for_it(control, text):
    assert control_text(control) == text


def test_who_asked_and_why_it_was_not_done_are_told():
    pause = Answer("1", 0.0, {"verb": "pause"})
    assert answer_text(pause) == "pause"
    asked = pause._replace(by="ada@lap\x1btop", refused="the search is paused already")
    told = "pause, asked by ada@lap top; not done: the search is paused already"
    assert answer_text(asked) == told
    head, line = control_lines([asked])
    assert (head, line[-len(told) :]) == ("Asked while it ran", told)
    assert control_lines([]) == []


def test_what_a_resume_changed_is_told_with_when_and_after_how_many_epochs():
    was, now = {"scheduler.max_t": 10, "stop": {}}, {"scheduler.max_t": 20, "stop": {"target": 0.1}}
    made = datetime(2026, 11, 22, 20, 10).timestamp()
    budget = {"was": {"time_budget_s": 9.0}, "is": {"time_budget_s": None}}
    odd = {"was": {"\x1b[2J": "\x07"}, "is": {"\x1b[2J": 1}}
    assert change_lines(
        [
            {"time": made, "after_epochs": 60, "was": was, "is": now},
            {"time": None, "after_epochs": None, **budget},
            {"time": None, "after_epochs": None, **odd},
        ]
    ) == [
        "Changed by a resume",
        "  2026-11-22 20:10, after 60 epochs: scheduler.max_t 10 -> 20, stop {} ->",
        "    {'target': 0.1}",
        "  time_budget_s 9 -> none",
        "   [2J   -> 1",
    ]
    assert change_lines([]) == []
