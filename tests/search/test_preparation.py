"""From a spec to a plan: what is decided, in which order, and that nothing changes it."""

from dataclasses import FrozenInstanceError

import pytest
from synthetic import TRAINABLE, Writer, make_folder

from tuner.errors import NameTakenError, SpecError
from tuner.search.preparation import prepare
from tuner.spec.validation import Machine

GRID = {"lr": "choice([0.1, 0.01, 0.9])"}


@pytest.fixture
def raw(tmp_path):
    """A grid of three configs, of which the experiment `first` has tried one."""
    spec = {"search": {"strategy": "grid", "space": GRID}, "trainable": TRAINABLE}
    spec |= {"scheduler": {"max_t": 1}, "training": {}, "num_samples": None}
    spec["objective"] = {"metric": "val_accuracy", "mode": "max"}
    writer = Writer(make_folder(tmp_path / "first", **spec))
    writer.trial(0, [0.5], config={"lr": 0.1})
    writer.kill()
    return {**spec, "name": "second", "storage": str(tmp_path), "warm_start": "first"}


def test_plan_counts_what_the_warm_start_skips(raw):
    plan = prepare(raw)
    assert (plan.spec.trials, plan.skipped, plan.trials) == (3, 1, 2)
    assert prepare({**raw, "warm_start": None}).trials == 3
    assert prepare(raw, recorded=True).warm_start is None
    assert prepare({**raw, "num_samples": 1}).trials == 1


def test_plan_is_frozen(raw):
    plan = prepare(raw)
    with pytest.raises(FrozenInstanceError):
        plan.warm_start = None
    assert plan.pin_data() is not plan
    assert plan.data is None


@pytest.mark.parametrize("machine", [None, Machine(cpus=2)])
def test_plan_knows_where_its_trials_run(raw, machine):
    assert prepare(raw, machine=machine).is_here == (machine is not None)


def test_faults_of_a_spec_come_before_a_taken_name_and_that_before_a_warm_start(
    raw, snapshot
):
    taken = {**raw, "name": "first", "warm_start": "gone"}
    with pytest.raises(SpecError):
        prepare({**taken, "seed": -1}, is_new=True)
    with snapshot.raises(NameTakenError):
        prepare(taken, is_new=True)
