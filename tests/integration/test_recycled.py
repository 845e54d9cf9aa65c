"""A process that is not to train another trial is replaced, and the next trial loses nothing."""

import pytest

from tuner.experiment.reading import read

pytestmark = pytest.mark.slow


def processes(searched, trials, **fields):
    """(the results, the pid that each trial ran in, None where it failed)."""
    results = searched(
        trainable="hoarding:Hoarder",
        training={"epochs": 1},
        search={"strategy": "grid", "space": {"trial": f"grid_search({trials!r})"}},
        objective={"metric": "pid"},
        scheduler="none",
        max_concurrent=1,
        **fields,
    )
    pids = [
        trial.results[0].metrics["pid"] if trial.results else None
        for trial in results.trials.values()
    ]
    return results, pids


@pytest.mark.parametrize("workers", [1, 2])
def test_one_that_keeps_too_much(searched, workers):
    trials = [{"hoards": 1.1, "raises": False, "number": number} for number in range(4)]
    results, pids = processes(searched, trials, resources={"workers": workers})
    assert pids[0] == pids[1] != pids[2] == pids[3]  # the first of each sets the measure
    assert {trial.status for trial in results.trials.values()} == {"completed"}
    told = ["earlier trials" in results.log_path(t).read_text() for t in results.trials.values()]
    assert told == [False, True, False, True]
    started = [e["trial_id"] for e in read(results.folder) if e["event"] == "trial_started"]
    assert started == list(results.trials)


def test_one_in_which_a_trial_failed(searched):
    trials = [{"hoards": 0, "raises": number == 2, "number": number} for number in range(4)]
    results, pids = processes(searched, trials)
    assert pids[0] == pids[1] != pids[3]
    assert pids[2] is None
    error = results.trials["00002"].error
    assert error.kind == "exception"
    assert error.message.startswith("ValueError: not with me, at hoarding.py:")


def test_one_in_which_a_function_goes_on(searched):
    does = ["goes_on", "takes_long_to_end", "goes_on"]
    results = searched(
        trainable="faulty:stubborn",
        search={"strategy": "grid", "space": {"does": f"grid_search({does!r})"}},
        scheduler={"max_t": 1, "grace_period": 1},
        max_concurrent=1,
    )
    told = [(trial.status, trial.last_epoch) for trial in results.trials.values()]
    assert told == [("completed", 1)] * 3
    assert len({trial.results[0].metrics["pid"] for trial in results.trials.values()}) == 3
    last_line = results.log_path(results.trials["00000"]).read_text().splitlines()[-1]
    reason = "the function of a trial has not ended in 2 s"
    assert last_line == f"this process is not used again: {reason}"
