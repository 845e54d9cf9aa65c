"""The trials of a search that clients run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tuner.errors import UsageError
from tuner.experiment import events
from tuner.experiment.trials import TrialRecord
from tuner.search.driver import UNBOUNDED, Driver
from tuner.search.trial_queue import last_result
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure


@dataclass(slots=True)
class Client:
    """A client that runs one trial.

    name: its choice. repeats: the last epoch that it may repeat. last_seen: of its last call.
    has_left: it was told to stop, and its trial goes on later.
    """

    name: str | None = None
    repeats: int = 0
    last_seen: float = 0.0
    has_left: bool = False


def noting(journaled: Iterable[events.Event], clients: dict[str, Client]) -> Iterator[events.Event]:
    """The events; keeps the latest client of each trial in `clients`."""
    for event in journaled:
        if event["event"] == events.TRIAL_STARTED:
            clients[event["trial_id"]] = Client(event.get("client"))
        elif event["event"] == events.TRIAL_ENDED and (
            event.get("control") or event["status"] == events.FAILED
        ):
            clients[event["trial_id"]].has_left = True
        yield event


class RemoteTrials:
    """Hands trials to clients and records their reports. clients: by trial_id."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._history = driver, driver.history
        self.clients: dict[str, Client] = {}
        self._waiting: set[str] = set()  # trials that go on later, with any client

    def take_up(self, clients: Mapping[str, Client]) -> None:
        """Let unfinished trials go on with their `clients` or, if these left, with others."""
        driver = self._driver
        trials = sorted(driver.unfinished(), key=lambda trial: clients[trial.trial_id].has_left)
        driver.begin(map(_assignment, trials), fits=lambda: UNBOUNDED)
        for trial in trials:
            client = clients[trial.trial_id]
            if client.has_left:
                self._waiting.add(trial.trial_id)
            else:  # it keeps its trial, even if fewer may run by now
                assignment = driver.queue.next()
                assert assignment is not None
                self._start(assignment, client)

    def of(self, name: str | None) -> TrialRecord | None:
        """The trial of the client of this name, which may report it again from its start."""
        for trial_id, client in self.clients.items():
            if name is not None and client.name == name:
                trial = self._history.trials[trial_id]
                client.last_seen, client.repeats = self._driver.journal.clock(), trial.last_epoch
                return trial
        return None

    def next(self, name: str | None) -> TrialRecord | None:
        """Start the next trial, for the client of this name; None while there is none."""
        queue = self._driver.queue
        if queue.is_full or (assignment := queue.next()) is None:
            return None
        trial_id, client = assignment.trial_id, Client(name)
        if trial_id in self._waiting:
            self._waiting.remove(trial_id)
            client.repeats = self._history.trials[trial_id].last_epoch
        self._start(assignment, client)
        return self._history.trials.get(trial_id)

    def runs(self, trial_id: str) -> bool:
        """Whether the trial runs; notes that its client has called."""
        client = self.clients.get(trial_id)
        if client is not None:
            client.last_seen = self._driver.journal.clock()
        return client is not None

    def report(self, trial_id: str, epoch: int, metrics: dict[str, float]) -> None:
        """Journal a new report and a resulting end. Raises UsageError for an old epoch."""
        driver = self._driver
        if self._is_repeated(trial_id, epoch, metrics[driver.spec.objective.metric]):
            return
        goes_on = driver.scheduler.record(trial_id, epoch, metrics)
        driver.emit(events.RESULT, trial_id=trial_id, epoch=epoch, metrics=metrics)
        if driver.spec.epochs is not None and epoch >= driver.spec.epochs:
            self.end(trial_id, events.COMPLETED)
        elif not goes_on:
            self.end(trial_id, events.STOPPED)
        elif not self.leave_if_requested(trial_id):
            driver.queue.report(trial_id, {**metrics, "training_iteration": epoch})

    def leave_if_requested(self, trial_id: str) -> bool:
        """End a running trial if a user requested that, or a pause; returns whether it ended."""
        driver = self._driver
        if not driver.steering.leaves(trial_id):
            return False
        status, control = driver.steering.leaving(trial_id) or (events.STOPPED, "")
        self.end(trial_id, status, control=control)
        if status == events.INTERRUPTED:
            self._waiting.add(trial_id)
            driver.queue.retry(_assignment(self._history.trials[trial_id]))
        return True

    def end(
        self,
        trial_id: str,
        status: str,
        failure: Failure | None = None,
        *,
        control: str | None = None,
    ) -> None:
        """Journal the end of a running trial, and notify the searcher; see `Driver.end`."""
        driver = self._driver
        driver.end(trial_id, status, failure, control=control)
        del self.clients[trial_id]
        result = last_result(self._history.trials[trial_id])
        driver.queue.leave(trial_id, result, failed=failure is not None)
        if failure is not None:
            driver.queue.give_up(trial_id, failure.kind)

    def end_silent(self) -> None:
        """End the trials whose clients have not called for `timeouts.report_s`."""
        now, limit_s = self._driver.journal.clock(), self._driver.spec.timeouts.report_s
        silent = [i for i, client in self.clients.items() if now - client.last_seen >= limit_s]
        for trial_id in silent:
            self.end(
                trial_id, events.FAILED, Failure("timeout", f"nothing heard of it in {limit_s:g} s")
            )

    def _start(self, trial: Assignment, client: Client) -> None:
        details = {"origin": trial.origin, "seed": trial.seed, "client": client.name}
        self._driver.start(trial.trial_id, trial.config, **details)
        client.last_seen = self._driver.journal.clock()
        self.clients[trial.trial_id] = client

    def _is_repeated(self, trial_id: str, epoch: int, value: float) -> bool:
        trial, client = self._history.trials[trial_id], self.clients[trial_id]
        if epoch > trial.last_epoch:
            return False
        reports = trial.values(self._driver.spec.objective.metric)
        if epoch <= client.repeats or reports[-1] == (epoch, value):
            return True
        raise UsageError(
            f"epoch {epoch} of trial {trial_id} must come after {trial.last_epoch}, which is "
            "recorded with its values"
        )


def _assignment(trial: TrialRecord) -> Assignment:
    return Assignment(trial.trial_id, trial.config, seed=trial.seed)
