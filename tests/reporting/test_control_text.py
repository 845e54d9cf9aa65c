"""What was asked of a search that ran, in words."""

import pytest

from tuner.record.steered import Answer
from tuner.reporting.control_text import answer_text, control_lines, control_text


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
