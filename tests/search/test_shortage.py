"""What a search logs while no trial runs."""

from types import SimpleNamespace

import pytest

from tuner.search.shortage import AGAIN_S, FIRST_S, Waiting


@pytest.fixture
def waiting(caplog):
    """Lets a search be in a state until a moment; returns what has been logged by then."""
    now = [0.0]
    reasons = ["too little"]
    calls = []

    def why():
        calls.append(now[0])
        return reasons[0] if reasons else None

    workers = [0]
    output = []
    shown = []
    callback = Waiting(
        why,
        starting=lambda: workers[0],
        output=lambda ids: f"{ids}: {output[0]}" if output else None,
        show=shown.append,
        clock=lambda: now[0],
    )

    def until(moment, *states):
        config = {"trial_id": "00007"}
        trials = [SimpleNamespace(status=state, config=config) for state in states]
        while now[0] < moment:
            now[0] += 1.5
            callback.on_step_end(0, trials)
        return [record.getMessage() for record in caplog.records]

    return SimpleNamespace(
        until=until,
        reasons=reasons,
        calls=calls,
        workers=workers,
        output=output,
        shown=shown,
    )


def test_waiting_warns_after_a_while_and_then_rarely(waiting):
    assert waiting.until(FIRST_S - 2, "PENDING", "TERMINATED") == []
    warnings = waiting.until(FIRST_S, "PENDING", "TERMINATED")
    assert warnings == [
        f"no trial has run for 1m 00s: {line}" for line in waiting.reasons
    ]
    assert waiting.until(AGAIN_S, "PENDING") == warnings
    again = waiting.until(FIRST_S + AGAIN_S, "PENDING")[len(warnings) :]
    assert again == [
        f"no trial has run for 31m 00s: {line}" for line in waiting.reasons
    ]


@pytest.mark.parametrize("states", [("PENDING", "RUNNING"), ("TERMINATED",), ()])
def test_waiting_while_a_trial_runs_or_none_waits_is_silent(waiting, states):
    assert waiting.until(10 * FIRST_S, *states) == []
    assert waiting.calls == []
    # Counted from the last that ran
    assert waiting.until(10.9 * FIRST_S, "PENDING") == []
    assert waiting.until(11.1 * FIRST_S, "PENDING") != []


def test_waiting_shows_what_a_trial_that_begins_has_printed_once(waiting):
    waiting.output.append("computing: 1 of 9")
    waiting.until(1, "PENDING")
    assert waiting.shown == []
    waiting.until(29, "PENDING", "TERMINATED")
    assert waiting.shown == ["['00007']: computing: 1 of 9"]
    waiting.output[0] = "computing: 5 of 9"
    waiting.until(49, "PENDING", "RUNNING")
    assert len(waiting.shown) == 1
    waiting.until(69, "PENDING")
    assert waiting.shown[1:] == ["['00007']: computing: 5 of 9"]


def test_waiting_does_not_warn_while_what_begins_goes_on_printing(waiting):
    for step in range(4):
        waiting.output[:] = [f"computing: {step} of 9"]
        assert waiting.until((step + 1) * FIRST_S, "PENDING") == []
    [warning] = waiting.until(5.1 * FIRST_S, "PENDING")  # silent since
    assert "no trial has run for 1m" in warning


def test_waiting_for_starting_workers_names_them_and_no_shortage(waiting):
    waiting.workers[0] = 2
    assert waiting.until(FIRST_S, "PENDING") == [
        "no trial has run for 1m 00s: 2 workers still starting"
    ]
    assert waiting.calls == []
