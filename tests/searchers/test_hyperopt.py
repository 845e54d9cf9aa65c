from typing import Any

from contracts.searcher_contract import SPACE, SearcherContract

from tuner.searchers.hyperopt import HyperOptSearch


class TestHyperOptSearch(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> HyperOptSearch:
        return HyperOptSearch(space, **{"metric": "loss", "mode": "min", **settings})
