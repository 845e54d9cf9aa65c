"""Which epochs of a trial are saved, and whether it waits for that."""

import pytest

from tuner.trial.save_policy import Save, SavePolicy, SaveRules

EPOCH_S, WRITE_S = 0.2, 0.05


def choices(values, *, last=100, write_s=WRITE_S, reported=0, writing=(), first=1, **rules):
    """What becomes of each epoch of a trial, one letter each: Now, Beside, Hold, or - for none."""
    policy = SavePolicy(SaveRules(**rules), reported=reported)
    said = ""
    for epoch, value in enumerate(values, start=first):
        how = policy.choose(
            epoch,
            is_best=policy.is_best(value),
            is_last=epoch == last,
            epoch_s=EPOCH_S,
            is_writing=epoch in writing,
            now=epoch * EPOCH_S,
        )
        if how is Save.NOW:
            policy.waited(write_s)
        said += "-" if how is None else how.value[0].upper()
    return said


WORSE = range(1, 11)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"every_s": 100}, "N---------"),  # what cannot be saved is told at once
        ({"every_s": 100, "rungs": frozenset({4, 8})}, "N--N---N--"),
        ({"every_s": 100, "last": 10}, "N--------N"),
        ({"every_s": 0}, "NBBBBBBBBB"),
        ({"every_s": 0.5}, "N--B--B--B"),
        ({"every_s": 0.5, "writing": (4, 5)}, "N----B--B-"),  # it begins once the other is done
        ({"every_s": 0.5, "rungs": frozenset({3})}, "N-N--B--B-"),  # counted from there
        ({"every_s": 0.5, "write_s": EPOCH_S / 50}, "NNNNNNNNNN"),  # not worth a thread
    ],
)
def test_a_trial_waits_where_something_is_decided(given, expected):
    assert choices(WORSE, **given) == expected


@pytest.mark.parametrize(
    ("mode", "values"), [("min", [5, 6, 4, 4, 3, 9, 2]), ("max", [5, 4, 6, 6, 7, 1, 8])]
)
def test_the_best_is_held_until_the_next_is_written(mode, values):
    assert choices(values, mode=mode, every_s=100) == "N-H-H-H"
    assert choices(values, mode=mode, every_s=100, rungs=frozenset({5})) == "N-H-N-H"


def test_what_is_trained_again_after_a_kill_is_saved_at_once():
    assert choices(WORSE, first=5, reported=8, every_s=100)[:6] == "NNNN--"


def test_a_slow_disk_is_not_waited_for_and_a_fast_one_is():
    policy = SavePolicy(SaveRules(every_s=100))
    about = {"is_best": False, "is_last": False, "epoch_s": 1.0, "is_writing": False}
    policy.waited(0.021)
    policy.choose(1, now=0, **about)
    assert policy.choose(2, now=1, **about) is None
    policy.waited(0.019)
    assert policy.choose(3, now=2, **about) is Save.NOW
