"""The contract of Learners: a test inherits it and says how to make the Learner.

    class TestMyLearner(LearnerContract):
        def make(self, *, seed=0):
            constants = {"epochs": 3, "seed": seed}
            return MyLearner({"lr": 0.1}, constants, device="cpu", rank=0, world_size=1)

It steps a Learner at most `steps` times, so give it at least that many `epochs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tuner.trial.failures import DONE
from tuner.trial.learner import Learner


def same(a: Any, b: Any) -> bool:
    """Whether two nested states are equal bit for bit, NaN being equal to itself."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


class LearnerContract:
    """Inherit, define `make`, and every test below runs on your Learner."""

    steps = 3
    timings: frozenset[str] = frozenset()  # metrics that measure time, which no seed repeats

    def make(self, *, seed: int = 0) -> Learner:
        """A new Learner, always of the same config, and of trial seed `seed`."""
        raise NotImplementedError

    def results(self, learner: Learner, steps: int) -> list[dict[str, float]]:
        """The reports of `steps` steps, without the timings."""
        reports = [learner.step() for _ in range(steps)]
        return [{k: v for k, v in r.items() if k not in self.timings} for r in reports]

    def saved(self, learner: Learner, folder: Path) -> dict[str, Any]:
        """The learner's state, written to a file and read from it."""
        torch.save(learner.state_dict(), folder / "state.pt")
        state: dict[str, Any] = torch.load(folder / "state.pt", weights_only=True)
        return state

    def test_is_a_learner(self) -> None:
        assert isinstance(self.make(), Learner)

    def test_reports_its_metrics(self) -> None:
        learner = self.make()
        for report in (learner.step(), learner.step()):
            assert all(isinstance(value, float | int) for value in report.values())
            assert all(map(math.isfinite, report.values())), report
            declared = getattr(learner, "metrics", None)
            assert declared is None or set(report) - {DONE} == set(declared)

    def test_same_seed_same_results(self) -> None:
        first, second = self.make(seed=3), self.make(seed=3)
        assert self.results(first, 2) == self.results(second, 2)
        assert same(first.state_dict(), second.state_dict())

    def test_other_seed_other_results(self) -> None:
        assert self.results(self.make(seed=1), 1) != self.results(self.make(seed=2), 1)

    def test_does_not_depend_on_global_random_state(self) -> None:
        results = []
        for other in (0, 1):
            torch.manual_seed(other)
            learner = self.make()
            torch.manual_seed(other + 2)
            results += self.results(learner, 1)
        assert results[0] == results[1]

    @pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
    def test_continues_where_it_was_saved(self, used: bool, tmp_path: Path) -> None:
        original = self.make(seed=5)
        states, expected = [], []
        for _ in range(self.steps):
            states.append(self.saved(original, tmp_path))
            expected += self.results(original, 1)
        end = original.state_dict()
        for after, state in enumerate(states):
            restored = self.make(seed=5)
            if used:
                restored.step()
            restored.load_state_dict(state)
            assert self.results(restored, self.steps - after) == expected[after:], after
            assert same(restored.state_dict(), end), after

    def test_test_split(self) -> None:
        measure = getattr(self.make(), "test", None)
        if measure is None:
            pytest.skip("this Learner has no test()")
        first, second = measure(), measure()
        assert {"test_loss", "test_accuracy"} <= set(first)
        assert first == second
