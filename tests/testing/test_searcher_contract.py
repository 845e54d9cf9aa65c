"""The contract of searchers catches one that repeats nothing and one that knows no bounds.

Those that ship inherit it in tests/search/searchers.
"""

import random
from typing import Any

import pytest
from searches import ModelSearch

from tuner.search.searchers._parzen import BOHB
from tuner.testing import SearcherContract
from tuner.testing.searcher_contract import SPACE

MODEL = BOHB(random_share=0.05, candidates=64)


class Unseeded(ModelSearch):
    def __init__(self, *arguments: Any, seed: int = 0, **settings: Any) -> None:
        super().__init__(*arguments, seed=random.randrange(2**31), **settings)


class Unbounded(ModelSearch):
    def suggest(self, trial_id: str) -> Any:
        config = super().suggest(trial_id)
        return {**config, "lr": 50.0} if isinstance(config, dict) else config


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Unseeded, "test_same_seed_same_configs_in_another_process"),
        (Unbounded, "test_suggests_plain_values_of_the_space"),
    ],
)
def test_contract_catches_what_breaks_a_search(kind, check):
    with pytest.raises((AssertionError, ValueError)):
        getattr(CONTRACTS[kind](), check)()


class UnseededContract(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> Any:
        return Unseeded(MODEL, space, **settings)


class UnboundedContract(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> Any:
        return Unbounded(MODEL, space, **settings)


CONTRACTS = {Unseeded: UnseededContract, Unbounded: UnboundedContract}
