from itertools import pairwise
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from tuner.experiment.events import EXPERIMENT_ENDED, EXPERIMENT_STARTED, TRIAL_ENDED, TRIAL_STARTED
from tuner.experiment.history import fold
from tuner.experiment.results.occupancy import occupancy_of

OWNER = {"host": "laptop", "pid": 1, "started": 1.0}


def begin(time, *, resumed=False):
    return {"event": EXPERIMENT_STARTED, "time": time, "resumed": resumed, "owner": OWNER}


def run(number, started, ended):
    whose = {"trial_id": f"{number:05}"}
    return (
        {"event": TRIAL_STARTED, "time": started, **whose, "config": {}},
        {"event": TRIAL_ENDED, "time": ended, **whose, "status": "completed"},
    )


def occupancy(*events):
    return occupancy_of(fold(sorted(events, key=lambda event: event["time"])))


def finish(time):
    return {"event": EXPERIMENT_ENDED, "time": time, "status": "completed"}


def test_a_run_takes_the_first_slot_that_is_free():
    found = occupancy(begin(0), *run(0, 1, 5), *run(1, 2, 3), *run(2, 4, 6), *run(3, 5, 8))
    assert [(s.slot, s.trial_id) for s in found.stays] == [
        (0, "00000"),
        (1, "00001"),
        (1, "00002"),
        (0, "00003"),
    ]
    assert (found.slots, found.wall_s, found.busy_s) == (2, 8, 4 + 1 + 2 + 3)
    assert found.idle_s == 2 * 8 - 10
    assert found.busy_share == 10 / 16


def test_the_gap_between_a_kill_and_a_resume_is_no_idle_time():
    killed = run(0, 1, 3)[0], {**run(0, 1, 3)[1], "event": "result", "epoch": 1, "metrics": {}}
    again = run(0, 101, 103)
    found = occupancy(begin(0), *killed, begin(100, resumed=True), *again, finish(104))
    assert (found.slots, found.wall_s, found.busy_s) == (1, 3 + 4, 2 + 2)
    assert [stay.trial_id for stay in found.stays] == ["00000", "00000"]


def test_without_trials_there_are_no_slots():
    for found in (occupancy(begin(0), finish(2)), occupancy()):
        assert (found.slots, found.stays, found.idle_s, found.busy_share) == (0, (), 0, None)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=30))
def test_no_two_runs_share_a_slot_and_none_is_more_than_needed(times):
    events = [e for i, (at, length) in enumerate(times) for e in run(i, at, at + length)]
    found = occupancy(begin(0), *events)
    for slot in range(found.slots):
        own = [stay.run for stay in found.stays if stay.slot == slot]
        assert all(one.ended <= two.started for one, two in pairwise(own))
    moments = {at for at, _ in times}
    most = max(sum(a <= moment < a + n for a, n in times) for moment in moments)
    assert found.slots == most
    assert isclose(found.busy_s, sum(length for _, length in times))
