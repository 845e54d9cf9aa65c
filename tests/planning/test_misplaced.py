"""Keys in the wrong place are told where they belong."""

import pytest

from tuner.errors import Fault, SpecError, unknown
from tuner.planning.misplaced import placed
from tuner.planning.validation import validate
from tuner.spec.experiment import ExperimentSpec

SPEC = {"search": {"space": {"lr": "uniform(0.1, 1)"}}, "num_samples": 1}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epochs": 3}, "epochs: unknown key 'epochs': did you mean scheduler.max_t?"),
        ({"max_t": 3}, "max_t: unknown key 'max_t': did you mean scheduler.max_t?"),
        ({"lr": 0.1}, "lr: unknown key 'lr': did you mean search.space.lr or training.lr?"),
        ({"learning_rate": 1}, "'learning_rate': did you mean search.space.lr?"),
        ({"model": "cnn"}, "model: unknown key 'model': did you mean training.model?"),
        ({"metric": "loss"}, "did you mean objective.metric?"),
        ({"space": {}}, "did you mean search.space?"),
        ({"seeds": [1]}, "'seeds': did you mean seed or search.seeds?"),
        ({"n_trials": 3}, "did you mean num_samples?"),
        ({"scheduler": {"metric": "a"}}, "scheduler.metric: unknown key 'metric': did you mean "),
        ({"resources": {"lr": 1}}, "resources.lr: unknown key 'lr': did you mean search.space.lr"),
        ({"search": {**SPEC["search"], "lr": 1}}, "search.lr: unknown key 'lr': did you mean "),
        ({"training": {"max_t": 3}}, "training.max_t: unknown key 'max_t': did you mean scheduler"),
        ({"sede": 1}, "sede: unknown key 'sede' (did you mean 'seed'?); available: "),
        ({"nothing_like_it": 1}, "nothing_like_it: unknown key 'nothing_like_it'; available: "),
    ],
)
def test_a_key_is_told_where_it_belongs(change, told):
    with pytest.raises(SpecError) as refused:
        validate({**SPEC, **change})
    assert told in str(refused.value)


def test_what_is_no_unknown_key_stays_as_it_is():
    for fault in (Fault("lr", "is wrong", 1), unknown("x", "search", "lr", ["grid"])):
        assert placed(fault) is fault


def test_every_key_that_is_pointed_to_is_there():
    from tuner.planning import misplaced

    sections = {path.partition(".")[0] for paths in misplaced._places().values() for path in paths}
    assert sections <= set(ExperimentSpec.model_fields)
