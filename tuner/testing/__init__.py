"""Contracts for what users bring: inherit one in a test, and its tests run on your class.

LearnerContract           repeats with its seed, goes on from a checkpoint bit for bit
SearcherContract          suggests within bounds, repeats with its seed, survives any report
LearningSearcherContract  and learns from results, and goes on the same from its trials
ModelContract             returns logits, goes on from its state, repeats with its seed
DeclarationContract       refuses, settles and pins a spec as a search relies on
DatasetContract           has the shape, the splits and the pixel statistics that it declares

They need pytest and Hypothesis: pip install 'tuner[testing]'.
"""

# ruff: noqa: E402 - an assert that fails shows its values only if its module is registered first
import pytest

pytest.register_assert_rewrite(f"{__name__}.contracts", f"{__name__}.searcher_contract")

from tuner.testing.contracts import (
    DatasetContract,
    DeclarationContract,
    LearnerContract,
    ModelContract,
)
from tuner.testing.searcher_contract import LearningSearcherContract, SearcherContract

__all__ = [
    "DatasetContract",
    "DeclarationContract",
    "LearnerContract",
    "LearningSearcherContract",
    "ModelContract",
    "SearcherContract",
]
