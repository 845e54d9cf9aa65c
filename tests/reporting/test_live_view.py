"""The status of a search in numbers."""

import pytest
from synthetic import OWNER, START

from tuner.experiment.history import fold
from tuner.reporting.live_view import Status
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Objective

OBJECTIVE = Objective(metric="val_accuracy", mode="max")


SPACE = {"space": {"lr": "uniform(0, 1)"}}


SPEC = build_spec(
    {
        "search": SPACE,
        "objective": OBJECTIVE,
        "num_samples": 3,
        "scheduler": {"max_t": 4, "grace_period": 4},
    }
)


def running_search(epochs, **settings):
    """The status of 4 trials of 10 epochs, two of which have begun, after so many epochs."""
    started = {"event": "experiment_started", "resumed": False, "owner": OWNER}
    events = [started | {"time": START}]
    for number in (1, 2):
        trial = {"trial_id": f"{number:05}"}
        events.append({"event": "trial_started", "time": START, "config": {}} | trial)
        for epoch in range(1, epochs + 1):
            result = {"event": "result", "epoch": epoch, "metrics": {}} | trial
            events.append(result | {"time": START + epoch})
    spec = {"num_samples": 4, "scheduler": {"max_t": 10}} | settings
    return Status(fold(events, OBJECTIVE), SPEC.replace(**spec))


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
def test_seconds_left_follow_the_pace_and_the_budget(settings, epochs, left_s):
    assert running_search(epochs, **settings).estimate_left_s(START + epochs) == left_s


def test_seconds_left_use_the_length_of_ended_trials_since_a_resume():
    status = running_search(5)
    for number in (1, 2):
        ended = {"event": "trial_ended", "status": "stopped", "trial_id": f"{number:05}"}
        status.history.apply(ended | {"time": START + 5})
    assert status.estimate_left_s(START + 5) == 5
    status.history.apply({"event": "experiment_ended", "time": START + 5, "status": "completed"})
    assert status.estimate_left_s(START + 5) is None
    status = running_search(5)
    resumed = {"event": "experiment_started", "resumed": True, "owner": OWNER}
    status.history.apply(resumed | {"time": START + 1000})
    assert status.compute_elapsed_s(START + 1002) == 7
    assert status.estimate_left_s(START + 1002) is None
