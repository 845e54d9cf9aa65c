"""A function's trial in this process; most of it is in integration/."""

import pytest

from tuner.trial.function_trial import FunctionTrial


def test_stop_iteration_is_told_and_not_taken_for_rays_own():
    trial = object.__new__(FunctionTrial)
    trial._function = lambda config: next(iter(()))
    with pytest.raises(RuntimeError, match="the function raised StopIteration") as raised:
        trial._call({"config": {}, "seed": None})
    assert isinstance(raised.value.__cause__, StopIteration)
