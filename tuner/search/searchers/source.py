"""Where Tune gets its trials from: the one searcher that stands before every strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import count
from typing import Any

from ray.tune.search import Searcher

from tuner.search.searchers.ahead import AheadSearch
from tuner.trial.context import Assignment

_DIGITS = 5
_PATIENCE_S = 60.0  # with a strategy; it mostly takes less than one


def trial_id_of(number: int) -> str:
    """The id of trial `number`: zero-padded, so that ids sort in order of creation."""
    return f"{number:0{_DIGITS}d}"


class TrialSource(Searcher):
    """Numbers the trials, keeps at most `limit()` of them live, speaks our ids to the strategy.

    First come the `unfinished` trials of an interrupted run, then new ones, with the lowest
    numbers that are not `taken`, up to `total` in all (None: no end). Of a trial that failed the
    strategy hears when it is settled: by `again` it goes on, by `give_up` it is over.
    """

    def __init__(
        self,
        strategy: Searcher,
        *,
        total: int | None,
        limit: Callable[[], int],
        taken: Iterable[str] = (),
        unfinished: Iterable[Assignment] = (),
    ) -> None:
        super().__init__()
        self._strategy = strategy
        self._limit = limit
        self._unfinished = list(unfinished)
        known = frozenset(taken)
        numbers = count() if total is None else range(total)
        self._numbers = (number for number in numbers if trial_id_of(number) not in known)
        self._number = next(self._numbers, None)  # of the next new trial; None: there is none
        self._live: dict[str, str] = {}  # Ray's trial id -> ours

    def suggest(self, trial_id: str) -> Any:
        """The next assignment as a mapping; None while enough trials are live; else FINISHED."""
        if len(self._live) >= self._limit():
            return None
        assignment = self._next()
        if assignment is None or isinstance(assignment, str):
            return assignment
        self._live[trial_id] = assignment.trial_id
        return asdict(assignment)

    def _next(self) -> Assignment | str | None:
        if self._unfinished:
            return self._unfinished.pop(0)
        if self._number is None:
            return self._at_end()
        trial_id = trial_id_of(self._number)
        config = self._suggestion(trial_id)
        if config is None:
            return None
        if isinstance(config, str):
            return self._at_end()
        self._number = next(self._numbers, None)
        return Assignment(
            trial_id,
            config,
            origin=self._told("origin", trial_id),
            seed=self._told("seed_of", trial_id),
        )

    def _suggestion(self, trial_id: str) -> Any:
        """What the strategy suggests; None: not yet.

        While no trial is live that is waited for: there is nothing else to do, and Tune would come
        back only after 2 s.
        """
        config = self._strategy.suggest(trial_id)
        if config is None and not self._live and isinstance(self._strategy, AheadSearch):
            self._strategy.wait(_PATIENCE_S)
            config = self._strategy.suggest(trial_id)
        return config

    def _told(self, what: str, trial_id: str) -> Any:
        """What the strategy says of the trial; Ray's own searchers say nothing."""
        tell = getattr(self._strategy, what, None)
        return tell(trial_id) if tell else None

    def _at_end(self) -> str | None:
        # while one is live it may have to be tried again, and then Tune must still ask
        return None if self._live else str(Searcher.FINISHED)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self._strategy.on_trial_result(self._live[trial_id], result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        ours = self._live.pop(trial_id)
        if not error and result and "tuner/failure/kind" not in result:
            self._strategy.on_trial_complete(ours, result)

    def again(self, assignment: Assignment) -> None:
        """Hand out a failed trial once more."""
        self._unfinished.append(assignment)

    def give_up(self, trial_id: str, kind: str) -> None:
        """Tell the strategy that the trial's config fails; a lost node says nothing of it."""
        self._strategy.on_trial_complete(trial_id, None, error=kind != "node_lost")

    def save(self, checkpoint_path: str) -> None:
        """Ray's snapshots are not used: the journal holds all that a resume needs."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""
