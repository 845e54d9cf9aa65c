"""Faults of what a search would give the image classifier that ships."""

import pytest

from tuner.planning.classifier_faults import settings_faults
from tuner.spec.experiment import build_spec


def faults(space, **fields):
    spec = build_spec({"search": {"space": space}, "num_samples": 1, **fields})
    return [str(fault) for fault in settings_faults(spec)]


def test_what_works_has_none():
    assert faults({"lr": "loguniform(1e-4, 1)", "batch_size": "choice([32, 64])"}) == []


def test_each_extreme_of_a_domain_is_tried():
    [told] = faults({"batch_size": "choice([64, 2000])"})
    assert told.startswith("search.space.batch_size: must be at most the number of training images")


def test_what_was_meant_as_a_domain_is_told_where_it_is_no_value():
    [told] = set(faults({"momentum": [0.8, 0.9]}))
    assert "must be a number: did you mean choice([0.8, 0.9]) or uniform(0.8, 0.9)?" in told
    [told] = set(faults({"batch_size": {"min": 1, "max": 9}}))
    assert told.startswith("search.space.batch_size: must be a whole number: did you mean randint(")


def test_ranks_share_a_batch_evenly():
    [told] = set(faults({"batch_size": "choice([64])"}, resources={"workers": 3}))
    assert told.startswith("search.space.batch_size: must be divisible by the 3 workers")


@pytest.mark.parametrize("space", [{"dataset": "choice(['digits', 'folder:x'])"}])
def test_images_of_the_users_own_are_not_searched(space):
    assert any(told.startswith("search.space.dataset: ") for told in faults(space))


def test_without_a_scheduler_a_length_is_needed():
    [told] = faults({"lr": "uniform(0.1, 1)"}, scheduler="none")
    assert told.startswith("training.epochs: is required")
