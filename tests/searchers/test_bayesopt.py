from typing import Any

from contracts.searcher_contract import SPACE, SearcherContract

from tuner.searchers.bayesopt import BayesOptSearch


class TestBayesOptSearch(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> BayesOptSearch:
        return BayesOptSearch(space, **{"metric": "loss", "mode": "min", **settings})
