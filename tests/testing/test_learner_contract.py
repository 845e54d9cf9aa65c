"""The contract of Learners: it passes a good one, and catches what breaks a search."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tuner.testing import LearnerContract


class Walk:
    """The smallest Learner: a random walk of one weight."""

    metrics = ("val_loss",)

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.weight = torch.zeros(1)

    def step(self) -> dict[str, float]:
        self.weight += torch.randn(1, generator=self.random)
        return {"val_loss": self.weight.item()}

    def state_dict(self) -> dict[str, Any]:
        return {"weight": self.weight.clone(), "random": self.random.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weight = state["weight"].clone()
        self.random.set_state(state["random"])


class TestAGoodLearner(LearnerContract):
    def make(self, *, seed: int = 0) -> Walk:
        return Walk(seed)


class Forgets(Walk):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weight = state["weight"].clone()


class Undeclared(Walk):
    metrics = ("val_accuracy",)


class Global(Walk):
    def step(self) -> dict[str, float]:
        return {"val_loss": torch.randn(1).item()}


@pytest.mark.parametrize(
    ("kind", "check", "arguments"),
    [
        (Forgets, "test_continues_where_it_was_saved", (True, "tmp_path")),
        (Undeclared, "test_reports_its_metrics", ()),
        (Global, "test_same_seed_same_results", ()),
        (Global, "test_does_not_depend_on_global_random_state", ()),
    ],
)
def test_contract_catches_what_breaks_a_search(
    kind: type[Walk], check: str, arguments: tuple[Any, ...], tmp_path: Path
) -> None:
    class Contract(LearnerContract):
        def make(self, *, seed: int = 0) -> Walk:
            return kind(seed)

    values = [tmp_path if argument == "tmp_path" else argument for argument in arguments]
    with pytest.raises(AssertionError):
        getattr(Contract(), check)(*values)
