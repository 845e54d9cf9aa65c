"""From a spec to the trainable that Ray Tune runs."""

import pytest

from tuner.search.trainable import placement
from tuner.spec.sections import Resources


@pytest.mark.parametrize(
    ("resources", "bundles"),
    [
        ({"cpus": 1}, [{"CPU": 1}]),
        ({"cpus": 2, "gpus": 0.25}, [{"CPU": 2, "GPU": 0.25}]),
        ({"cpus": 1, "gpus": 1, "workers": 2}, [{"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1}]),
        ({"cpus": 2, "split": 3}, [{"CPU": 2}] * 3),
    ],
)
def test_a_trial_reserves_what_its_workers_use_and_no_more(resources, bundles):
    group = placement(Resources(**resources))
    assert group.bundles == bundles
    assert group.head_bundle_is_empty == (len(bundles) > 1)  # who only watches reserves nothing
