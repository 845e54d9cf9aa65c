"""A function's trial in this process; most of it is in integration/."""

import re

import pytest
import ray
from test_trainable import assignment, log
from test_worker import context

from tuner.trial.failures import WorkerSpentError
from tuner.trial.function_trial import FunctionTrial

CONTEXT = None  # of the trial that is made next


class FunctionHere(FunctionTrial):
    def setup(self, config):
        super().setup(config, CONTEXT)


def test_where_ray_lacks_what_a_function_needs_its_trial_fails_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "__version__", "2.60.99")
    monkeypatch.delattr("ray.train._internal.session.get_session")
    monkeypatch.setitem(globals(), "CONTEXT", context(tmp_path, trainable="json:dumps", cpus=1))
    trial = FunctionHere(assignment())
    with pytest.raises(WorkerSpentError) as spent:
        trial.train()
    message = (
        r"UnknownRayError: this Ray \(2\.60\.99\) is not as begin_function needs it \(.*\): no"
    )
    assert re.match(message, spent.value.failure.message)
    trial.stop()
    assert "no plain function can be searched" in log(tmp_path)


def test_stop_iteration_is_told_and_not_taken_for_rays_own():
    trial = object.__new__(FunctionTrial)
    trial._function = lambda config: next(iter(()))
    with pytest.raises(RuntimeError, match="the function raised StopIteration") as raised:
        trial._call({"config": {}, "seed": None})
    assert isinstance(raised.value.__cause__, StopIteration)
