"""What a trial reserves, how a search ends, and what Ray shows of it."""

import os
import pickle

import pytest
from ray.widgets import util

from tuner.search.tune_arguments import StopAll, placement, progress_reporter
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


def test_what_stop_all_looks_at_need_not_pickle():
    with open(os.devnull) as stream:
        pickle.dumps(StopAll(lambda: stream.closed))


def test_stop_all_ends_all_trials_or_none():
    over = False
    stopper = StopAll(lambda: over)
    assert (stopper("x", {}), stopper.stop_all()) == (False, False)
    over = True
    assert (stopper("x", {}), stopper.stop_all()) == (False, True)


def test_in_a_notebook_ray_reports_nothing(monkeypatch):
    monkeypatch.setattr(util, "in_notebook", lambda: True)
    assert progress_reporter().should_report([], done=True) is False


def test_elsewhere_ray_is_left_as_it_is():
    """It would warn of a reporter that it does not use."""
    assert progress_reporter() is None
