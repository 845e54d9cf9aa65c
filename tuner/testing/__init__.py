"""Contracts for what users bring: inherit one in a test, and its tests run on your class.

LearnerContract           repeats with its seed, goes on from a checkpoint bit for bit
StrictLearnerContract     and shares no state, so that several can train in one process
SearcherContract          suggests within bounds, repeats with its seed, survives any report
LearningSearcherContract  and learns from results, and goes on the same from its trials
ModelContract             returns logits, goes on from its state, repeats with its seed
DeclarationContract       refuses, settles and pins a spec as a search relies on
DatasetContract           has the shape, the splits and the pixel statistics that it declares

They need pytest, and the searchers' Hypothesis: pip install 'tuner[testing]'.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tuner.testing.dataset_contract import DatasetContract
    from tuner.testing.declaration_contract import DeclarationContract
    from tuner.testing.learner_contract import LearnerContract, StrictLearnerContract
    from tuner.testing.model_contract import ModelContract
    from tuner.testing.searcher_contract import LearningSearcherContract, SearcherContract

__all__ = [
    "DatasetContract",
    "DeclarationContract",
    "LearnerContract",
    "LearningSearcherContract",
    "ModelContract",
    "SearcherContract",
    "StrictLearnerContract",
]

_MODULES = {
    "DatasetContract": "tuner.testing.dataset_contract",
    "DeclarationContract": "tuner.testing.declaration_contract",
    "LearnerContract": "tuner.testing.learner_contract",
    "LearningSearcherContract": "tuner.testing.searcher_contract",
    "ModelContract": "tuner.testing.model_contract",
    "SearcherContract": "tuner.testing.searcher_contract",
    "StrictLearnerContract": "tuner.testing.learner_contract",
}

# Before they are imported: so that an assert that fails shows its values, as in a test's own file.
pytest.register_assert_rewrite(*_MODULES.values())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tuner.testing' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
