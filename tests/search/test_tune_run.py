"""What a trial reserves, how a search ends, and what Ray shows of it."""

import os
import pickle

import pytest

from tuner.search.tune_run import StopAll, build_placement
from tuner.spec.sections import Resources


@pytest.mark.parametrize(
    ("resources", "bundles"),
    [
        ({"cpus": 2, "gpus": 0.25}, [{"CPU": 2, "GPU": 0.25}]),
        (
            {"cpus": 1, "gpus": 1, "workers": 2},
            [{"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1}],
        ),
        ({"cpus": 2, "split": 3}, [{"CPU": 2}] * 3),
    ],
)
def test_placement_reserves_what_the_workers_use(resources, bundles):
    group = build_placement(Resources(**resources))
    assert group.bundles == bundles
    # Who only watches reserves nothing
    assert group.head_bundle_is_empty == (len(bundles) > 1)


def test_stop_all_ends_all_trials_or_none_and_pickles():
    with open(os.devnull) as stream:
        stopper = StopAll(lambda: stream.closed)
        pickle.dumps(stopper)
        assert (stopper("x", {}), stopper.stop_all()) == (False, False)
    assert (stopper("x", {}), stopper.stop_all()) == (False, True)
