"""Where Tune gets its trials from: the one searcher that stands before every strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import asdict
from typing import Any

from ray.tune.search import Searcher

from tuner.experiment.events import FAILED, INTERRUPTED, RESULT, TRIAL_ENDED, TRIAL_STARTED, Event
from tuner.experiment.steered import ASKED, Steered
from tuner.search.searchers._background import BackgroundSearch
from tuner.trial.context import Assignment

_DIGITS = 5
_TOLD = {"done": True}  # what stands for a report that a strategy has had
_SUGGESTION_TIMEOUT_S = 60.0  # mostly it takes less than one


def trial_id_of(number: int) -> str:
    """The id of trial `number`: zero-padded, so that ids sort in order of creation."""
    return f"{number:0{_DIGITS}d}"


class TrialSource(Searcher):
    """Numbers the trials, keeps at most `limit()` of them live, translates Ray's ids to ours.

    First come the `unfinished` trials of an interrupted run, then the configs that users asked for,
    numbered behind all others, then the strategy's, with the lowest numbers that are not `taken`,
    up to `total` of these (None: no end). The strategy learns of a failed trial once it is settled:
    `retry` runs it again, `give_up` ends it.

    taken: by the trials of the runs before; asked: those of them whose configs users asked for.
    steered: what users ask of the search. attend: called before each trial, so that what is asked
    is heard where Tune does nothing else; whether the search is over.
    """

    def __init__(
        self,
        strategy: Searcher,
        *,
        total: int | None,
        limit: Callable[[], int],
        taken: Iterable[str] = (),
        unfinished: Iterable[Assignment] = (),
        asked: Iterable[str] = (),
        steered: Steered | None = None,
        attend: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.total = total
        self.held: set[str] = set()  # trials that give up their places, to go on later
        self._strategy = strategy
        self._limit = limit
        self._unfinished = list(unfinished)
        self._taken = 0  # trials
        self._last = -1  # number of them
        self._next_own = 0  # the lowest number that is free
        self._beyond: set[int] = set()  # numbers above it that are taken
        for trial_id in taken:
            self._take(int(trial_id))
        self._asked: set[str] = set()
        for trial_id in sorted(asked, key=int):
            self._pass_over(trial_id)
        self._steered = steered or Steered()
        self._attend = attend
        self._live: dict[str, str] = {}  # Ray's trial id -> ours
        self.at_end = False  # whether there was no further trial when one was last asked for

    @property
    def live(self) -> int:
        """How many trials have a place, or wait for one."""
        return len(self._live)

    @property
    def is_whole(self) -> bool:
        """Whether no trial is left to be handed out, as far as is known without asking for one."""
        if self._unfinished:
            return False
        if self._steered.finishing or len(self._asked) < len(self._steered.tries):
            return self._steered.finishing
        own = self._taken - len(self._asked)
        return self.at_end or (self.total is not None and own >= self.total)

    def suggest(self, trial_id: str) -> Any:
        """The next assignment as a mapping; None while enough trials are live; else FINISHED."""
        is_over = self._attend()
        if is_over and not self._live:
            return Searcher.FINISHED
        if len(self._live) >= self._limit():
            return None
        assignment = self._next()
        if assignment is None or isinstance(assignment, str):
            return assignment
        self._live[trial_id] = assignment.trial_id
        return asdict(assignment)

    def _next(self) -> Assignment | str | None:
        self.at_end = False
        if self._unfinished:
            assignment = self._unfinished.pop(0)
            _tell_to_go_on(self._strategy, assignment.trial_id)
            return assignment
        if self._steered.finishing:
            return self._at_end()
        if len(self._asked) < len(self._steered.tries):
            return self._next_asked(self._steered.tries[len(self._asked)])
        if self.total is not None and self._taken - len(self._asked) >= self.total:
            return self._at_end()
        number = self._next_own
        trial_id = trial_id_of(number)
        config = self._suggestion(trial_id)
        if config is None:
            return None
        if isinstance(config, str):
            return self._at_end()
        self._take(number)
        origin, seed = (self._about(trial_id, method) for method in ("origin", "seed_of"))
        return Assignment(trial_id, config, origin=origin, seed=seed)

    def _next_asked(self, config: dict[str, Any]) -> Assignment:
        # Behind all others, so that theirs mean what they did, whatever a kill leaves unused
        number = self._last + 1
        self._take(number)
        trial_id = trial_id_of(number)
        self._pass_over(trial_id)
        if take_trial := getattr(self._strategy, "take_trial", None):
            take_trial(trial_id, config)
        return Assignment(trial_id, deepcopy(config), origin=ASKED)

    def _take(self, number: int) -> None:
        self._taken += 1
        self._last = max(self._last, number)
        self._beyond.add(number)
        while self._next_own in self._beyond:
            self._beyond.remove(self._next_own)
            self._next_own += 1

    def _pass_over(self, trial_id: str) -> None:
        """Keep a strategy that counts trials from counting this one."""
        self._asked.add(trial_id)
        if pass_over := getattr(self._strategy, "pass_over", None):
            pass_over(trial_id)

    def _hears_of(self, trial_id: str) -> bool:
        """Whether the strategy has suggested the trial, or has taken it."""
        return trial_id not in self._asked or hasattr(self._strategy, "take_trial")

    def _suggestion(self, trial_id: str) -> Any:
        """What the strategy suggests; None: not yet.

        It is waited for while no trial is live: there is nothing else to do, and Tune would ask
        again only after 2 s.
        """
        config = self._strategy.suggest(trial_id)
        if config is None and not self._live and isinstance(self._strategy, BackgroundSearch):
            self._strategy.wait(_SUGGESTION_TIMEOUT_S)
            config = self._strategy.suggest(trial_id)
        return config

    def _about(self, trial_id: str, method: str) -> Any:
        """What the strategy's `method` returns; None for Ray's own searchers, which lack it."""
        ask = getattr(self._strategy, method, None)
        return ask(trial_id) if ask else None

    def _at_end(self) -> str | None:
        self.at_end = True
        # A live trial may have to be run again, so Tune must go on asking
        return None if self._live else str(Searcher.FINISHED)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        our_id = self._live[trial_id]
        if self._hears_of(our_id):
            self._strategy.on_trial_result(our_id, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        our_id = self._live.pop(trial_id)
        if our_id in self.held or not self._hears_of(our_id):
            return
        if not error and result and "tuner/failure/kind" not in result:
            self._strategy.on_trial_complete(our_id, result)

    def retry(self, assignment: Assignment) -> None:
        """Hand out once more a trial that has failed, or has given up its place."""
        self.held.discard(assignment.trial_id)
        self._unfinished.append(assignment)

    def drop(self, trial_id: str, result: dict[str, Any]) -> bool:
        """End a trial that waits to go on, whose last report is `result`; False: none such does."""
        waiting = [one for one in self._unfinished if one.trial_id == trial_id]
        if not waiting:
            return False
        self._unfinished.remove(waiting[0])
        if self._hears_of(trial_id):
            self._strategy.on_trial_complete(trial_id, result or None)
        return True

    def give_up(self, trial_id: str, kind: str) -> None:
        """Let the strategy know that the trial failed; a lost node says nothing of its config."""
        if self._hears_of(trial_id):
            self._strategy.on_trial_complete(trial_id, None, error=kind != "node_lost")

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: Ray's snapshots are not used, since the journal has all a resume needs."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""


def _tell_to_go_on(strategy: Searcher, trial_id: str) -> None:
    """Let a strategy that learns know that a trial goes on, even if it had ended."""
    if go_on := getattr(strategy, "go_on", None):
        go_on(trial_id)


def replay(strategy: Searcher, events: Iterable[Event]) -> None:
    """Report every trial of a journal to `strategy`, as if it had suggested and seen them.

    A strategy without `take_trial` learns nothing from trials, and nothing is reported to it. A
    lost node says nothing of its trial's config, and an interrupted trial has not ended.
    """
    if not hasattr(strategy, "take_trial"):
        return
    if not isinstance(strategy, BackgroundSearch):
        _replay(strategy, events)
    elif _replay(strategy.search, events):  # as long as nothing is asked of it, it need not wait
        strategy.go_on_from_earlier_trials()


def _replay(strategy: Any, events: Iterable[Event]) -> int:
    """Report to a strategy that learns; returns how many trials it knows of by that."""
    latest: dict[str, dict[str, Any]] = {}  # trial_id -> its latest report
    for event in events:
        kind, trial_id = event["event"], event.get("trial_id", "")
        if kind == TRIAL_STARTED and trial_id not in latest:
            strategy.take_trial(trial_id, event["config"])
            latest[trial_id] = {}
        elif kind == TRIAL_STARTED:
            _tell_to_go_on(strategy, trial_id)
        elif kind == RESULT:
            latest[trial_id] = {**event["metrics"], "training_iteration": event["epoch"]}
            strategy.on_trial_result(trial_id, latest[trial_id])
        elif kind == TRIAL_ENDED and event["status"] == FAILED:
            is_at_fault = event["error"]["kind"] != "node_lost"
            strategy.on_trial_complete(trial_id, None, error=is_at_fault)
        elif kind == TRIAL_ENDED and event["status"] != INTERRUPTED:
            strategy.on_trial_complete(trial_id, latest[trial_id] or None)
            if latest[trial_id]:
                latest[trial_id] = _TOLD  # in place of its metrics: there may be 100,000 trials
    return len(latest)
