"""When it is said that no trial runs."""

from types import SimpleNamespace

import pytest

from tuner.search.waiting import AGAIN_S, FIRST_S, Waiting


@pytest.fixture
def waiting(caplog):
    """Lets a search be in a state until a moment; returns what has been said by then."""
    now, lines, asked = [0.0], ["too little", "all is held"], []

    def why():
        asked.append(now[0])
        return lines

    callback = Waiting(why, clock=lambda: now[0])

    def until(moment, *states):
        trials = [SimpleNamespace(status=state) for state in states]
        while now[0] < moment:
            now[0] += 1.5
            callback.on_step_end(0, trials)
        return [record.getMessage() for record in caplog.records]

    return SimpleNamespace(until=until, lines=lines, asked=asked)


def test_it_is_said_after_a_while_and_then_rarely(waiting):
    assert waiting.until(FIRST_S - 2, "PENDING", "TERMINATED") == []
    said = waiting.until(FIRST_S, "PENDING", "TERMINATED")
    assert said == [f"no trial has run for 1m 00s: {line}" for line in waiting.lines]
    assert waiting.until(AGAIN_S, "PENDING") == said
    again = waiting.until(FIRST_S + AGAIN_S, "PENDING")[len(said) :]
    assert again == [f"no trial has run for 31m 00s: {line}" for line in waiting.lines]


@pytest.mark.parametrize("states", [("PENDING", "RUNNING"), ("TERMINATED",), ()])
def test_nothing_is_said_while_one_runs_or_none_waits(waiting, states):
    assert waiting.until(10 * FIRST_S, *states) == []
    assert waiting.asked == []
    assert waiting.until(10.9 * FIRST_S, "PENDING") == []  # counted from the last that ran
    assert waiting.until(11.1 * FIRST_S, "PENDING") != []


def test_what_cannot_be_explained_is_asked_again(waiting):
    waiting.lines.clear()
    assert waiting.until(2.9 * FIRST_S, "PENDING") == []
    assert len(waiting.asked) == 2
    waiting.lines.append("now it can")
    assert waiting.until(3 * FIRST_S, "PENDING") == ["no trial has run for 3m 00s: now it can"]
