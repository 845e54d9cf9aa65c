"""The counting part of benchmarks/waiting.py."""

from benchmarks.waiting import waited

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
