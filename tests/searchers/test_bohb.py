from typing import Any

from contracts.searcher_contract import SPACE, SearcherContract

from tuner.searchers.bohb import BOHBSearch


class TestBOHBSearch(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> BOHBSearch:
        return BOHBSearch(space, **{"metric": "loss", "mode": "min", **settings})
