"""The trials of a search that are handed out to whoever asks, and who has which of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from tuner.errors import UsageError
from tuner.experiment.clock import Clock
from tuner.experiment.events import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    RESULT,
    STOPPED,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.steered import ASKED
from tuner.experiment.trials import TrialRecord
from tuner.planning.validation import ValidatedSpec
from tuner.search.recorder import Recorder
from tuner.search.resuming import unfinished
from tuner.search.schedulers._stopping import InOrder
from tuner.search.steering import UNBOUNDED, Steering
from tuner.search.trial_source import TrialSource
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure


@dataclass(slots=True)
class Client:
    """Whoever runs a trial.

    name: its own word for itself. latest: the epoch and the metrics that it reported last. repeats:
    the last epoch that it may train again, having been given a trial that had begun. heard: when it
    last spoke of its trial. key: by which the source of trials knows it. has_left: whether it was
    told to stop, though its trial is to go on later.
    """

    name: str | None = None
    latest: tuple[int, dict[str, float]] | None = None
    repeats: int = 0
    heard: float = 0.0
    key: str = ""
    has_left: bool = False

    @property
    def result(self) -> dict[str, Any]:
        """Its latest report as a searcher takes it; empty before the first."""
        if self.latest is None:
            return {}
        epoch, metrics = self.latest
        return {**metrics, "training_iteration": epoch}


def noting(events: Iterable[Event], clients: dict[str, Client]) -> Iterator[Event]:
    """The events, once `clients` holds who has each trial of them, and what it reported last."""
    for event in events:
        if event["event"] == TRIAL_STARTED:
            client = clients.setdefault(event["trial_id"], Client())
            client.name, client.has_left = event.get("client"), False
        elif event["event"] == RESULT:
            clients[event["trial_id"]].latest = event["epoch"], event["metrics"]
        elif event["event"] == TRIAL_ENDED and (event.get("control") or event["status"] == FAILED):
            clients[event["trial_id"]].has_left = True
        yield event


class HandedOut:
    """Hands trials out, and journals what comes of them, as the driver of Tune's trials does.

    history: the experiment's. scheduler: what it says of reports is done. clock: that of the
    events. on_change: called with the spec once a control has changed it. A trial that fails is not
    tried again: whoever runs it decides that.
    """

    def __init__(
        self,
        spec: ValidatedSpec,
        folder: ExperimentFolder,
        history: History,
        recorder: Recorder,
        *,
        searcher: Any,
        scheduler: InOrder,
        clock: Clock,
        on_change: Callable[[ValidatedSpec], object],
    ) -> None:
        self.spec = spec
        self.emit = recorder.emit
        self._history, self._recorder, self._searcher = history, recorder, searcher
        self._scheduler, self._clock, self._on_change = scheduler, clock, on_change
        self._clients: dict[str, Client] = {}  # of the trials that run, by their ids
        self._waiting: dict[str, Client] = {}  # who had the trials that are to be handed out anew
        self._keys = (f"asked-{number}" for number in count())
        self.steering = Steering(folder, history, self, fits=lambda: UNBOUNDED, scheduler=scheduler)

    def __contains__(self, trial_id: str) -> bool:
        return trial_id in self._clients

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def is_full(self) -> bool:
        """Whether as many trials run as may."""
        return len(self._clients) >= self.steering.limit()

    @property
    def at_end(self) -> bool:
        """Whether no further trial will be handed out."""
        return self._source.is_whole

    def take_up(self, clients: Mapping[str, Client], *, retry_failed: bool = False) -> None:
        """Let the trials go on that had not ended: with those who have them, as `clients` says, or,
        where they have left, with whoever asks. retry_failed: those that have failed, too.
        """
        if retry_failed:
            self._recorder.reopen_failed()
        trials = self._history.trials
        going_on = sorted(self._going_on(), key=lambda trial: clients[trial.trial_id].has_left)
        kept = [t.trial_id for t in going_on if not clients[t.trial_id].has_left]
        self._source = self.steering.source = TrialSource(
            self._searcher,
            total=self.spec.trials,
            # Whoever has a trial keeps it, also where fewer may run by now
            limit=lambda: UNBOUNDED if kept else self.steering.limit(),
            taken=trials,
            asked=[trial.trial_id for trial in trials.values() if trial.origin == ASKED],
            unfinished=[_assignment(trial) for trial in going_on],
            steered=self._history.steered,
        )
        self._waiting = {trial.trial_id: clients[trial.trial_id] for trial in going_on}
        while kept:
            key = next(self._keys)
            trial = Assignment(**self._source.suggest(key))
            kept.remove(trial.trial_id)
            client = self._waiting.pop(trial.trial_id)
            client.key = key
            self._start(trial, client)

    def of(self, name: str) -> TrialRecord | None:
        """The trial that the client of this name has; it may train it again from its start."""
        for trial_id, client in self._clients.items():
            if client.name == name:
                trial = self._history.trials[trial_id]
                client.heard, client.repeats = self._clock(), trial.last_epoch
                return trial
        return None

    def next(self, name: str | None) -> TrialRecord | None:
        """A trial that nobody runs, for the client of this name; None while there is none."""
        key = next(self._keys)
        given = self._source.suggest(key)
        if not isinstance(given, Mapping):
            return None
        trial, client = Assignment(**given), Client(name, key=key)
        if before := self._waiting.pop(trial.trial_id, None):
            client.latest = before.latest
            client.repeats = self._history.trials[trial.trial_id].last_epoch
        self._start(trial, client)
        return self._history.trials.get(trial.trial_id)

    def heard(self, trial_id: str) -> Client | None:
        """Who runs the trial, and has just spoken of it; None where it has ended."""
        client = self._clients.get(trial_id)
        if client is not None:
            client.heard = self._clock()
        return client

    def report(self, trial_id: str, epoch: int, metrics: dict[str, float]) -> None:
        """Journal a report of a trial that runs, and end it where that follows from it.

        One that is recorded already changes nothing. Raises UsageError for an epoch that must not
        come.
        """
        client = self._clients[trial_id]
        if self._is_repeated(trial_id, client, epoch, metrics):
            return
        goes_on = self._scheduler.record(trial_id, epoch, metrics)
        self._recorder.emit(RESULT, trial_id=trial_id, epoch=epoch, metrics=metrics)
        client.latest = (epoch, metrics)
        if self.spec.epochs is not None and epoch >= self.spec.epochs:
            self.end(trial_id, COMPLETED)
        elif not goes_on:
            self.end(trial_id, STOPPED)
        elif not self.leave_if_asked(trial_id):
            self._source.on_trial_result(client.key, client.result)

    def leave_if_asked(self, trial_id: str) -> bool:
        """End a trial that runs where somebody has asked for it, or for a pause; whether it did."""
        if not self.steering.leaves(trial_id):
            return False
        client, trial = self._clients[trial_id], self._history.trials[trial_id]
        status, control = self.steering.leaving(trial_id) or (STOPPED, "")
        self.end(trial_id, status, control=control)
        if status == INTERRUPTED:
            self._waiting[trial_id] = client
            self._source.retry(_assignment(trial))
        return True

    def end(
        self,
        trial_id: str,
        status: str,
        failure: Failure | None = None,
        *,
        control: str | None = None,
    ) -> None:
        """Journal the end of a trial, and let the searcher know of one that runs.

        control: the id of the one that has ended it.
        """
        self._recorder.end(trial_id, status, failure, control=control)
        self._waiting.pop(trial_id, None)
        client = self._clients.pop(trial_id, None)
        if client is not None:
            self._source.on_trial_complete(client.key, client.result, error=failure is not None)
        if failure is not None:
            self._source.give_up(trial_id, failure.kind)

    def go_on_by(self, spec: ValidatedSpec) -> None:
        """Go on by a spec with another number of trials, at a time or in all, or another budget."""
        self.spec, self._source.total, self._source.at_end = spec, spec.trials, False
        self._on_change(spec)

    def end_silent(self) -> None:
        """End the trials of which nothing was heard for too long."""
        now, limit_s = self._clock(), self.spec.timeouts.report_s
        for trial_id in [i for i, client in self._clients.items() if now - client.heard >= limit_s]:
            self.end(trial_id, FAILED, Failure("timeout", f"nothing heard of it in {limit_s:g} s"))

    def interrupt(self) -> None:
        """End all that run as interrupted."""
        self._clients.clear()
        self._recorder.interrupt_running()

    def _going_on(self) -> Iterator[TrialRecord]:
        """The trials that had not ended; ends those that only a kill has kept from it."""
        for trial in unfinished(self._history):
            if not self._recorder.end_if_over(trial, epochs=self.spec.epochs):
                yield trial

    def _start(self, trial: Assignment, client: Client) -> None:
        known = {"origin": trial.origin, "seed": trial.seed, "client": client.name}
        self._recorder.start(trial.trial_id, trial.config, **known)
        client.heard = self._clock()
        self._clients[trial.trial_id] = client

    def _is_repeated(
        self, trial_id: str, client: Client, epoch: int, metrics: dict[str, float]
    ) -> bool:
        last = self._history.trials[trial_id].last_epoch
        if epoch > last:
            return False
        if epoch <= client.repeats or client.latest == (epoch, metrics):
            return True
        other = " with other values" if epoch == last else ""
        raise UsageError(
            f"epoch {epoch} of trial {trial_id} must come after {last}, which is recorded{other}"
        )


def _assignment(trial: TrialRecord) -> Assignment:
    return Assignment(trial.trial_id, trial.config, seed=trial.seed)
