"""Computes suggestions in a thread, so that the driver never waits for a model."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ray.tune.search import Searcher

from tuner.search.searchers._learning import LearningSearch

_SLOTS_PER_SPARE = 8  # one suggestion is kept ready for so many slots


class BackgroundSearch(Searcher):
    """Wraps a slow `search`: `suggest` answers at once, with None for "not yet".

    Reports are passed on in order, before the next suggestion is computed. With few slots a
    suggestion is computed on request, after all reports until then: with one trial at a time the
    sequence is that of `search`, whatever the timing. With many slots some suggestions are kept
    ready after the first request; before the first report as many as there are slots to fill.
    """

    def __init__(self, search: LearningSearch, *, slots: int = 1) -> None:
        super().__init__(search.metric, search.mode)
        self.search = search
        self._spare = slots // _SLOTS_PER_SPARE
        self._initial = slots if self._spare else 0  # left to suggest before any report
        self._changed = threading.Condition()
        self._inbox: deque[Callable[[], object]] = deque()
        self._ready: deque[tuple[str, dict[str, Any] | str]] = deque()
        self._names: dict[str, str] = {}  # trial_id -> its name in `search`
        self._begun = False  # before the first request earlier trials may be added
        self._requested = False  # a request is unanswered
        self._computed = 0
        self._finished = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def suggest(self, trial_id: str) -> Any:
        """The config of the trial; None while none is ready; FINISHED at the end of the space.

        Raises the error of its computation.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            self._begun = True
            if not self._ready:
                if self._finished and not self._inbox:
                    return Searcher.FINISHED
                self._requested = True
                self._start_thread()
                return None
            name, config = self._ready.popleft()
            self._requested = False
            self._initial = max(self._initial - 1, 0)
            self._names[trial_id] = name
            self._start_thread()
            return config

    def wait(self, timeout_s: float) -> None:
        """Wait until the requested suggestion is ready, or none will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._thread is None, timeout_s)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass it on, before the next suggestion is computed."""
        name, result = self._name(trial_id), dict(result)
        self._post(lambda: self.search.on_trial_result(name, result))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass it on, before the next suggestion is computed."""
        name, result = self._name(trial_id), dict(result) if result else None
        self._post(lambda: self.search.on_trial_complete(name, result, error))

    def take_trial(self, trial_id: str, config: dict[str, Any]) -> None:
        """See `LearningSearch.take_trial`."""
        self._post(lambda: self.search.take_trial(trial_id, config))

    def go_on(self, trial_id: str) -> None:
        """See `LearningSearch.go_on`."""
        name = self._name(trial_id)
        self._post(lambda: self.search.go_on(name))

    def add_evaluated_point(self, *args: Any, **kwargs: Any) -> None:
        """See `LearningSearch.add_evaluated_point`."""
        self.settle()
        self.search.add_evaluated_point(*args, **kwargs)

    def go_on_from_earlier_trials(self) -> None:
        """Suggest nothing ahead of reports, since `search` knows those of earlier trials."""
        self._initial = 0

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested."""
        return self.search.origin(self._name(trial_id))

    def settle(self) -> None:
        """Wait until every report is passed on and nothing is being computed."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None)

    def _name(self, trial_id: str) -> str:
        return self._names.get(trial_id, trial_id)

    def _post(self, message: Callable[[], object]) -> None:
        with self._changed:
            self._initial = 0
            if not self._begun:  # a resume: a complete journal would wait in the inbox
                message()
                return
            self._inbox.append(message)
            self._finished = False  # a lost trial's config may be tried again
            self._start_thread()

    def _start_thread(self) -> None:
        """Start the thread if there is work for it; it ends when there is none."""
        if self._thread is None and self._has_work():
            # Not a daemon: killing one within compiled code crashes the process
            self._thread = threading.Thread(target=self._work, name="searcher", daemon=False)
            self._thread.start()

    def _has_work(self) -> bool:
        return bool(self._inbox) or (not self._finished and self._missing() > 0)

    def _missing(self) -> int:
        """How many more suggestions are to be computed."""
        if not self._begun:
            return 0
        return max(self._spare, self._initial) + int(self._requested) - len(self._ready)

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    if not self._has_work():
                        self._thread = None
                        self._changed.notify_all()
                        return
                    message = self._inbox.popleft() if self._inbox else None
                    missing = self._missing()
                if message is not None:
                    message()
                else:
                    self._compute(missing)
        except BaseException as error:
            with self._changed:
                self._error, self._thread = error, None
                self._changed.notify_all()

    def _compute(self, count: int) -> None:
        """Compute so many suggestions, with one fit of the model, before more reports."""
        for _ in range(count):
            name = f"ahead-{self._computed}"
            self._computed += 1
            config = self.search.suggest(name)
            with self._changed:
                if isinstance(config, str):
                    self._finished = True
                    return
                self._ready.append((name, config))
                self._changed.notify_all()

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return {**self.__dict__, "_changed": None, "_thread": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._changed = threading.Condition()
