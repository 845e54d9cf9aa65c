"""The counting part of benchmarks/waiting.py."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.waiting import Timed, waited
from tuner.search.searchers._numbered import DistinctConfigs, NumberedSearch
from tuner.search.searchers.random import RandomSettings

NOTES = [
    (0.0, "given"),
    (1.0, "given"),
    (4.0, "ended"),  # a slot is free, but the strategy has not been asked yet
    (4.5, "not ready"),
    (5.0, "not ready"),
    (6.0, "ended"),
    (6.5, "given"),
    (7.5, "given"),
]


def test_a_slot_waits_from_not_ready_until_the_next_is_given():
    # two slots: one waits from 4.5 to 6, both from 6 to 6.5; then the strategy is ready again
    assert waited(NOTES, 2) == (2.5, 15.0)
    assert waited([], 2) == (0.0, 0.0)


def test_slots_that_are_taken_do_not_wait():
    """With a trial more asked for than there are slots, nobody waits for it."""
    assert waited([(0.0, "given"), (1.0, "not ready"), (9.0, "not ready")], 1) == (0.0, 9.0)


@given(st.lists(st.tuples(st.floats(0.01, 9), st.sampled_from(["given", "ended", "not ready"]))))
def test_slots_wait_for_at_most_all_of_their_time(steps):
    notes, now, live = [], 0.0, 0
    for step, kind in steps:
        now += step
        if kind == "ended" and not live:
            continue
        live += {"given": 1, "ended": -1}.get(kind, 0)
        notes.append((now, kind))
    waiting_s, all_s = waited(notes, 3)
    assert 0 <= waiting_s <= all_s + 1e-9
    always = [(time, "given" if kind == "not ready" else kind) for time, kind in notes]
    assert waited(always, 3)[0] == 0.0


def test_a_timed_strategy_notes_what_it_said():
    class Unready(NumberedSearch):
        def suggest(self, trial_id):
            return None if trial_id == "00001" else super().suggest(trial_id)

    configs = DistinctConfigs(RandomSettings(space={"x": "uniform(0, 1)"}), seed=0)
    timed = Timed(Unready("random", configs))
    assert isinstance(timed.suggest("00000"), dict)
    assert timed.suggest("00001") is None
    timed.on_trial_complete("00000", {"loss": 1.0})
    assert [kind for _, kind in timed.notes] == ["given", "not ready", "ended"]
    assert timed.origin("00000") == "random"
    times = [time for time, _ in timed.notes]
    assert times == sorted(times)
    assert timed.longest >= 0
