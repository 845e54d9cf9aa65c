"""Keys in the wrong place are told where they belong."""

import pytest

from tuner.errors import Fault, SpecError, unknown
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.misplaced import placed
from tuner.spec.validation import validate

SPEC = {"search": {"space": {"lr": "uniform(0.1, 1)"}}, "num_samples": 1}


class Learner:
    metrics = ("accuracy",)

    def __init__(self, config, constants, *, device, rank, world_size): ...

    def step(self): ...

    def state_dict(self): ...

    def load_state_dict(self, state): ...


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epochs": 3}, "epochs: unknown key 'epochs' (did you mean 'scheduler.max_t'?)"),
        ({"max-t": 3}, "max-t: unknown key 'max-t' (did you mean 'scheduler.max_t'?)"),
        ({"lr": 0.1}, "lr: unknown key 'lr' (did you mean 'search.space.lr' or 'training.lr'?)"),
        ({"learning_rate": 1}, "'learning_rate' (did you mean 'search.space.lr'?)"),
        ({"model": "cnn"}, "model: unknown key 'model' (did you mean 'training.model'?)"),
        ({"metric": "loss"}, "(did you mean 'objective.metric'?)"),
        ({"space": {}}, "(did you mean 'search.space'?)"),
        ({"seeds": [1]}, "'seeds' (did you mean 'seed' or 'search.seeds'?)"),
        ({"n_trials": 3}, "(did you mean 'num_samples'?)"),
        ({"scheduler": {"metric": "a"}}, "scheduler.metric: unknown key 'metric' (did you mean "),
        ({"resources": {"lr": 1}}, "resources.lr: unknown key 'lr' (did you mean 'search.space.lr"),
        ({"resources": {"cpu": 1}}, "unknown key 'cpu' (did you mean 'resources.cpus'?); avail"),
        ({"search": {**SPEC["search"], "lr": 1}}, "search.lr: unknown key 'lr' (did you mean "),
        ({"training": {"max_t": 3}}, "training.max_t: unknown key 'max_t' (did you mean 'schedul"),
        ({"sede": 1}, "sede: unknown key 'sede' (did you mean 'seed' "),
        ({"nothing_like_it": 1}, "unknown key 'nothing_like_it'; `tuner spec` lists all"),
    ],
)
def test_validate_misplaced_key_names_its_path(change, told):
    with pytest.raises(SpecError) as refused:
        validate({**SPEC, **change})
    assert told in str(refused.value)


def test_placed_many_keys_names_the_nearest_and_the_command():
    with pytest.raises(SpecError) as refused:
        validate({**SPEC, "training": {"batchsize": 3}})
    [fault] = refused.value.faults
    assert str(fault) == (
        "training.batchsize: unknown key 'batchsize' (did you mean 'training.batch_size'?); "
        "`tuner spec training` lists all"
    )


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        ({"serach": SPEC["search"], "num_sample": 1}, ["serach", "num_sample"]),
        ({"search": SPEC["search"], "n_trials": 1}, ["n_trials"]),
        ({"search": {"spcae": {}}, "num_samples": 1}, ["search.spcae"]),
        ({"space": {"lr": "uniform(0, 1)"}, "num_samples": 1}, ["space"]),
        ({**SPEC, "trainable": Learner, "objectve": {"metric": "a"}}, ["objectve"]),
        ({**SPEC, "serach": {}, "search": {"space": {}}}, ["search.space", "serach"]),
    ],
)
def test_validate_mistyped_key_is_one_fault(spec, keys):
    with pytest.raises(SpecError) as refused:
        validate(spec)
    assert [fault.key for fault in refused.value.faults] == keys


def test_placed_keeps_other_faults():
    faults = [Fault("lr", "is wrong", 1), unknown("x", "search", "lr", ["grid"])]
    assert placed(faults, {}) == faults


def test_places_are_keys_of_the_spec():
    from tuner.spec import misplaced

    sections = {path.partition(".")[0] for paths in misplaced._places().values() for path in paths}
    assert sections <= set(ExperimentSpec.model_fields)
