"""The status of a search in numbers."""

import pytest
from synthetic import OWNER, START

from tuner.experiment.history import fold
from tuner.reporting.live_view import Status

TRIALS = ("00001", "00002")


@pytest.fixture
def run_search(spec):
    """The status of 4 trials of 10 epochs, two of which have begun, after so many epochs."""

    def run(epochs, **settings):
        changed = spec.replace(
            **{"num_samples": 4, "scheduler": {"max_t": 10}} | settings
        )
        events = [
            {
                "event": "experiment_started",
                "time": START,
                "resumed": False,
                "owner": OWNER,
            }
        ]
        for trial_id in TRIALS:
            trial = {"time": START, "trial_id": trial_id}
            events.append({"event": "trial_started", "config": {}} | trial)
            for epoch in range(1, epochs + 1):
                result = {"event": "result", "epoch": epoch, "metrics": {}}
                events.append(result | trial | {"time": START + epoch})
        return Status(fold(events, spec.objective), changed)

    return run


@pytest.mark.parametrize(
    ("settings", "epochs", "left_s"),
    [
        ({}, 5, 15),  # 30 of 40 epochs, two a second
        ({}, 0, None),
        ({"scheduler": "none"}, 5, None),
        ({"time_budget_s": 12}, 5, 7),
        ({"time_budget_s": 60}, 0, 60),
        ({"time_budget_s": 3, "num_samples": None}, 5, 0),
    ],
)
def test_seconds_left_follow_the_pace_and_the_budget(
    run_search, settings, epochs, left_s
):
    assert run_search(epochs, **settings).estimate_left_s(START + epochs) == left_s


def test_seconds_left_use_the_length_of_ended_trials_since_a_resume(run_search):
    status = run_search(5)
    for trial_id in TRIALS:
        ended = {"event": "trial_ended", "status": "stopped", "trial_id": trial_id}
        status.history.apply(ended | {"time": START + 5})
    assert status.estimate_left_s(START + 5) == 5
    status.history.apply(
        {"event": "experiment_ended", "time": START + 5, "status": "completed"}
    )
    assert status.estimate_left_s(START + 5) is None
    status = run_search(5)
    resumed = {"event": "experiment_started", "resumed": True, "owner": OWNER}
    status.history.apply(resumed | {"time": START + 1000})
    assert status.compute_elapsed_s(START + 1002) == 7
    assert status.estimate_left_s(START + 1002) is None
