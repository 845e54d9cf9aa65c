"""Each contract holds for what works, and its tests fail for what breaks a search.

Those of data sets and of the classifier's Declaration are inherited in tests/vision, too.
"""

from itertools import count
from typing import Any

import pytest
import torch
from torch import nn

from tuner.spec.declaration import Declaration, PinnedData
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.settings import Settings
from tuner.testing import DeclarationContract, LearnerContract, ModelContract

NUMBERS = count()


class Net(nn.Module):
    def __init__(self, in_channels, num_classes, width=4, dropout=0.5):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(dropout)
        self.head = nn.LazyLinear(num_classes)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x)).relu().mean((2, 3))))


class TestNet(ModelContract):
    network = Net
    model_args = {"width": 6}  # noqa: RUF012 - as users write it


def a_function(num_classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))


class TestAFunction(ModelContract):
    network = a_function
    in_channels = 1
    image_size = 8
    num_classes = 3


class Mixing(Net):
    """Normalises over the batch in an evaluation, too."""

    def forward(self, x):
        return super().forward(x - x.mean(0)) * 3


class Forgetting(Net):
    """Keeps what it learns outside of its state."""

    seen = 0.0

    def forward(self, x):
        self.seen += float(self.training)
        return super().forward(x) + self.seen


class Fixed(Net):
    def forward(self, x):
        return super().forward(x).detach()


class Single(Net):
    def forward(self, x):
        return super().forward(x)[:, :1]


class Unseeded(Net):
    def __init__(self, in_channels, num_classes):
        super().__init__(in_channels, num_classes)
        generator = torch.Generator()
        generator.seed()
        self.conv.weight.data.normal_(generator=generator)


@pytest.mark.parametrize(
    ("network", "model_args", "test"),
    [
        (Mixing, {}, "test_images_do_not_affect_each_other_in_an_evaluation"),
        (Forgetting, {}, "test_a_saved_state_continues"),
        (Fixed, {}, "test_its_weights_train"),
        (Single, {}, "test_it_returns_logits"),
        (Unseeded, {}, "test_a_seed_repeats_its_weights"),
        (Net, {"depth": 3}, "test_it_takes_its_arguments"),
    ],
)
def test_every_test_of_the_contract_can_fail(network, model_args, test):
    contract = type(
        "Faulty", (ModelContract,), {"network": network, "model_args": model_args}
    )
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(contract(), test)()


class Silent(Settings):
    width: int = 3


class Learner:
    def __init__(
        self, config: Any, constants: Any, *, device: Any, rank: int, world_size: int
    ):
        pass

    def step(self) -> None: ...
    def state_dict(self) -> None: ...
    def load_state_dict(self, state: Any) -> None: ...


class Undescribed(Learner):
    class D(Declaration):
        settings = Silent

    declaration = D()


class NeverSettled(Learner):
    class D(Declaration):
        def settle(self, spec: ExperimentSpec) -> ExperimentSpec:
            return spec.model_copy(update={"training": {"number": next(NUMBERS)}})

    declaration = D()


class PinsAnew(Learner):
    class D(Declaration):
        def pin_data(
            self, spec: ExperimentSpec, *, download: bool, here: bool
        ) -> PinnedData:
            return PinnedData({"number": next(NUMBERS)})

    declaration = D()


@pytest.mark.parametrize(
    ("learner", "check"),
    [
        (Learner, "test_it_is_found"),
        (Undescribed, "test_settings_say_what_they_mean"),
        (NeverSettled, "test_settling_twice_changes_nothing"),
        (PinsAnew, "test_data_is_pinned_once"),
    ],
)
def test_contract_fails_for_a_declaration_that_breaks_a_search(learner, check):
    contract = DeclarationContract()
    contract.learner = learner
    contract.spec = {
        "search": {"space": {"width": 1}},
        "num_samples": 1,
        "objective": {"metric": "x"},
    }  # type: ignore[misc]
    with pytest.raises(AssertionError):
        getattr(contract, check)()


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
def test_contract_catches_what_breaks_a_search(kind, check, arguments, tmp_path):
    class Contract(LearnerContract):
        def make(self, *, seed: int = 0) -> Walk:
            return kind(seed)

    values = [
        tmp_path if argument == "tmp_path" else argument for argument in arguments
    ]
    with pytest.raises(AssertionError):
        getattr(Contract(), check)(*values)
