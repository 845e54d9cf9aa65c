"""The contract of declarations catches one that does not do what a search relies on.

The classifier's inherits it in tests/vision, a user's Learner in tests/spec/test_declaration.py.
"""

from itertools import count
from typing import Any

import pytest

from tuner.spec.declaration import Declaration, PinnedData
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.settings import Settings
from tuner.testing import DeclarationContract

NUMBERS = count()


class Silent(Settings):
    width: int = 3


class Learner:
    def __init__(self, config: Any, constants: Any, *, device: Any, rank: int, world_size: int):
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
        def pin_data(self, spec: ExperimentSpec, *, download: bool, here: bool) -> PinnedData:
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
def test_contract_fails_for_a_declaration_that_breaks_a_search(learner: Any, check: str) -> None:
    contract = DeclarationContract()
    contract.learner = learner
    contract.spec = {
        "search": {"space": {"width": 1}},
        "num_samples": 1,
        "objective": {"metric": "x"},
    }  # type: ignore[misc]
    with pytest.raises(AssertionError):
        getattr(contract, check)()
