"""Hands out the trials of a search in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from random import Random
from typing import Any

from ray.tune.search import Searcher

from tuner.experiment.history import History
from tuner.experiment.steered import REQUESTED
from tuner.trial.context import Assignment


def format_trial_id(number: int) -> str:
    """The id of trial `number`: zero-padded, so that ids sort in order of creation."""
    return f"{number:05}"


class TrialQueue:
    """Numbers the trials and hands them out; `live` ones run or wait for a worker.

    First `unfinished` trials, then users' configs, then the strategy's, up to `total` (None: no
    end). history: of the earlier trials and controls. limit: of live trials. seed: from which
    trials draw their own, where the strategy has none; or None.
    """

    def __init__(
        self,
        strategy: Searcher,
        history: History,
        *,
        total: int | None,
        limit: Callable[[], int],
        unfinished: Iterable[Assignment] = (),
        seed: int | None = None,
    ) -> None:
        self.total = total
        self.live: set[str] = set()
        self.held: set[str] = set()  # trials that leave their slots, to go on later
        self.at_end = False  # whether `next` found no further trial at its last call
        self._strategy = strategy
        self._seed = seed
        self._limit = limit
        self._unfinished = list(unfinished)
        # Numbers of trials
        self._taken = {int(trial_id) for trial_id in history.trials}
        self._last = max(self._taken, default=-1)
        self._next_free = 0  # no lower number is free
        self._steered = history.steered
        self._requested: set[str] = set()
        # Requested, and not handed out
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        begun = sorted(
            (i for i, t in history.trials.items() if t.origin == REQUESTED), key=int
        )
        for trial_id in begun:
            self._pass_over(trial_id)
        waiting = list(self._steered.list_waiting(begun))
        for each in waiting:
            if each.trial_id:
                self._take(int(each.trial_id))  # before one without an id gets the same
        for each in waiting:
            self.queue_config(each.trial_id or self.choose_trial_id(), each.config)

    @property
    def is_full(self) -> bool:
        return len(self.live) >= self._limit()

    @property
    def is_empty(self) -> bool:
        """Whether no further trial is expected."""
        if self._unfinished:
            return False
        if self._steered.finishing or self._waiting:
            return self._steered.finishing
        return self.at_end or self._has_total

    def pop_next(self) -> Assignment | None:
        """The next trial, however many are live; None: not yet or, if `at_end`, no more."""
        self.at_end = False
        assignment: Assignment | None = None
        if self._unfinished:
            assignment = self._unfinished.pop(0)
            _run_if_defined(self._strategy, "go_on", assignment.trial_id)
        elif self._steered.finishing:
            self.at_end = True
        elif self._waiting:
            assignment = self._take_requested(*self._waiting.pop(0))
        elif self._has_total:
            self.at_end = True
        else:
            assignment = self._suggest_next()
        if assignment is not None:
            self.live.add(assignment.trial_id)
        return assignment

    @property
    def _has_total(self) -> bool:
        return (
            self.total is not None
            and len(self._taken) - len(self._requested) >= self.total
        )

    def _suggest_next(self) -> Assignment | None:
        while self._next_free in self._taken:
            self._next_free += 1
        number = self._next_free
        trial_id = format_trial_id(number)
        config = self._strategy.suggest(trial_id)
        if config is None or isinstance(config, str):
            self.at_end = config is not None
            return None
        self._take(number)
        origin, seed = (
            _run_if_defined(self._strategy, name, trial_id)
            for name in ("origin", "seed_of")
        )
        seed = self._draw_seed(trial_id) if seed is None else seed
        return Assignment(trial_id, config, origin=origin, seed=seed)

    def choose_trial_id(self) -> str:
        """A trial id for a requested config: above all others, which keep their configs."""
        return format_trial_id(self._last + 1)

    def queue_config(self, trial_id: str, config: dict[str, Any]) -> None:
        """Hand out a requested config, in a trial of a reserved id, before further suggestions."""
        self._take(int(trial_id))
        self._pass_over(trial_id)
        self._waiting.append((trial_id, config))

    def _take_requested(self, trial_id: str, config: dict[str, Any]) -> Assignment:
        _run_if_defined(self._strategy, "take_trial", trial_id, config)
        seed = self._draw_seed(trial_id)
        return Assignment(trial_id, deepcopy(config), origin=REQUESTED, seed=seed)

    def _draw_seed(self, trial_id: str) -> int | None:
        return (
            None
            if self._seed is None
            else Random(f"{self._seed}/{trial_id}").getrandbits(32)
        )

    def _take(self, number: int) -> None:
        self._taken.add(number)
        self._last = max(self._last, number)

    def _pass_over(self, trial_id: str) -> None:
        """Keep a strategy that counts trials from counting this one."""
        self._requested.add(trial_id)
        _run_if_defined(self._strategy, "pass_over", trial_id)

    def _is_known(self, trial_id: str) -> bool:
        """Whether the strategy has suggested the trial, or has taken it."""
        return trial_id not in self._requested or hasattr(self._strategy, "take_trial")

    def report(self, trial_id: str, result: dict[str, Any]) -> None:
        if self._is_known(trial_id):
            self._strategy.on_trial_result(trial_id, result)

    def release(
        self, trial_id: str, result: dict[str, Any] | None, *, failed: bool
    ) -> None:
        """Note that a trial, whose last report is `result`, is no longer live."""
        self.live.remove(trial_id)
        if (
            trial_id not in self.held
            and self._is_known(trial_id)
            and result
            and not failed
        ):
            self._strategy.on_trial_complete(trial_id, result)

    def retry(self, assignment: Assignment) -> None:
        """Hand out once more a trial that has failed, or has left its slot."""
        self.held.discard(assignment.trial_id)
        self._unfinished.append(assignment)

    def drop(self, trial_id: str, result: dict[str, Any]) -> bool:
        """End a trial if it waits to go on; its last report is `result`."""
        for trial in self._unfinished:
            if trial.trial_id == trial_id:
                self._unfinished.remove(trial)
                if self._is_known(trial_id):
                    self._strategy.on_trial_complete(trial_id, result or None)
                return True
        return False

    def report_failure(self, trial_id: str, kind: str) -> None:
        """Notify the strategy that the trial failed; a lost node does not judge its config."""
        if self._is_known(trial_id):
            self._strategy.on_trial_complete(trial_id, None, error=kind != "node_lost")


def _run_if_defined(strategy: Any, method: str, *arguments: Any) -> Any:
    """The answer of a method that a strategy may lack, or None."""
    bound = getattr(strategy, method, None)
    return bound(*arguments) if bound else None
