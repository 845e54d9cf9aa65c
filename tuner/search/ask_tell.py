"""A search whose clients ask for configs and report metrics, without Ray.

A client keeps its trial until it ends: at its last epoch, by the scheduler, `complete` or the
search, or after a silence of `timeouts.report_s`. If the driver is closed or killed, the next one
goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tuner import errors
from tuner.experiment import events
from tuner.experiment.control import read_current_document
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.journal import Clock
from tuner.experiment.trials import TrialRecord
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.trackers import Tracker
from tuner.search.driver import UNBOUNDED, Driver
from tuner.search.extension import Extension, load_if_finished
from tuner.search.preparation import Plan, prepare
from tuner.search.replay import find_last_result
from tuner.search.run import create
from tuner.spec.code import ELSEWHERE
from tuner.spec.experiment import ExperimentSpec
from tuner.threads import run_in_thread
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure, clip_message
from tuner.trial.reports import check_report

_log = logging.getLogger(__name__)

LONGEST_CLIENT = 200  # characters of a client's name
_TICK_S = 1.0  # between two looks at the clock, for what ends without a call


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A trial to run, with its seed. epoch: the last recorded one; earlier reports are ignored."""

    trial_id: str
    config: dict[str, Any]
    seed: int | None
    epoch: int = 0


class AskTell:
    """Drives an experiment whose trials run elsewhere; a context, within which it is the only
    driver.

    experiment: a spec with trainable "elsewhere" or none, or the folder of one to resume.
    add_samples: more trials. time_budget_s: a new budget. clock: seconds since the epoch.

    Methods are thread-safe. Entering raises as `run_experiment`. A failed journal or storage makes
    every method raise `error`, an ExperimentError; a closed search, SearchClosedError.
    """

    def __init__(
        self,
        experiment: ExperimentSpec | Plan | Path | str,
        *,
        add_samples: int = 0,
        time_budget_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._more = Extension(add_samples, time_budget_s)
        self._is_new = isinstance(experiment, ExperimentSpec | Plan)
        if self._is_new and self._more != Extension():
            raise errors.UsageError(
                "add_samples and time_budget_s are for the folder of an experiment that has "
                "begun: in a new one's spec, set num_samples and time_budget_s"
            )
        # The experiment.json of what is resumed
        self._extended: dict[str, Any] | None = None
        if isinstance(experiment, Plan):
            self._plan = experiment
        elif isinstance(experiment, ExperimentSpec):
            self._plan = _prepare_elsewhere(experiment)
        else:
            self._plan, self._extended = _prepare_resume(
                ExperimentFolder(experiment), self._more
            )
        self.is_over = self._is_closed = False
        self._clock = clock
        self._lock = threading.RLock()
        self._driver: Driver | None = None  # once it is opened
        self._held = ExitStack()  # the experiment, until the search is over
        self._listening = ExitStack()
        self._watched = ExitStack()
        self.error: errors.TunerError | None = None

    @property
    def spec(self) -> ExperimentSpec:
        """The experiment's spec, with what controls have changed."""
        return self._driver.spec if self._driver else self._plan.spec

    @property
    def history(self) -> History:
        return self._opened.history

    def __enter__(self) -> Self:
        if self._is_new:
            create(self._plan)
        with ExitStack() as opening:
            self._open(opening)
            if self.is_over:  # it had ended before
                return self
            self._held = opening.pop_all()
        self._listening.enter_context(self._opened.steering.receive_requests())
        self._settle()
        self._watched.enter_context(run_in_thread(self._watch))
        return self

    def __exit__(self, *exception: object) -> None:
        # Before the lock: who waits for it records nothing
        self._is_closed = not self.is_over
        self._watched.close()  # without the lock, for which its thread may wait
        with self._lock:
            if not self.is_over:
                self._end_search(events.INTERRUPTED)
                if self.error is not None:
                    raise self.error

    @property
    def ended(self) -> bool:
        """Whether no further trial will be suggested; running ones still report."""
        return (self.is_over and not self._is_closed) or self._opened.queue.is_empty

    def suggest(self, client: str | None = None) -> Suggestion | None:
        """The next trial, or None: no more (`ended`), or enough run for now.

        client: a name that gets its running trial again. Raises ExperimentError if the searcher
        fails.
        """
        if client is not None and not (
            client.isprintable() and 0 < len(client) <= LONGEST_CLIENT
        ):
            rule = f"must be 1 to {LONGEST_CLIENT} printable characters"
            raise errors.UsageError(str(errors.Fault("client", rule, client)))
        trial: TrialRecord | None = None
        with (
            self._lock_and_settle(),
            errors.translate_error(errors.ExperimentError, "the searcher failed"),
        ):
            if not self.is_over:
                trial = self._trials.find_client_trial(
                    client
                ) or self._trials.start_next(client)
        self._wait_for_journal()
        if trial is None:
            return None
        seed = trial.find_seed(self.spec.seed)
        return Suggestion(trial.trial_id, trial.config, seed, trial.last_epoch)

    def report(self, trial_id: str, epoch: int, metrics: Mapping[str, Any]) -> bool:
        """Record the metrics of an epoch; returns whether the trial should stop.

        Epochs increase. Non-finite values are dropped; such an objective fails the trial. Repeated
        reports are recorded once. Raises UsageError for an unknown trial, a bad epoch, or no
        objective.
        """
        if type(epoch) is not int or not 1 <= epoch < 10**15:
            fault = errors.Fault("epoch", "must be a whole number from 1 on", epoch)
            raise errors.UsageError(str(fault))
        objective = self.spec.objective
        recorded, _, failure = check_report(
            metrics, objective.metric, objective.required
        )
        if failure and failure.kind == "bad_report":
            raise errors.UsageError(
                f"epoch {epoch} of trial {trial_id} {failure.message}"
            )
        with self._lock:
            with self._lock_and_settle():
                if self._is_running(trial_id) and failure:
                    self._trials.end(trial_id, events.FAILED, failure)
                elif self._is_running(trial_id):
                    self._trials.report(trial_id, epoch, recorded)
            should_stop = trial_id not in self._trials.clients
        self._wait_for_journal()
        return should_stop

    def should_stop(self, trial_id: str) -> bool:
        """Whether the trial should stop now: it has ended. Raises UsageError for an unknown one."""
        with self._lock:
            with self._lock_and_settle():
                if self._is_running(trial_id):
                    self._trials.end_if_requested(trial_id)
            should_stop = trial_id not in self._trials.clients
        self._wait_for_journal()
        return should_stop

    def complete(
        self, trial_id: str, *, failure: str | None = None, kind: str = "exception"
    ) -> None:
        """End a trial: completed, or failed with `failure` of a kind of FAILURE_KINDS.

        Failed configs are avoided, except after `node_lost`. Raises UsageError for an unknown trial
        or kind.
        """
        if kind not in errors.FAILURE_KINDS:
            fault = errors.build_unknown_fault(
                "kind", "kind of failure", kind, errors.FAILURE_KINDS
            )
            raise errors.UsageError(str(fault))
        with self._lock_and_settle():
            if self._is_running(trial_id):
                self._complete(
                    trial_id,
                    None if failure is None else Failure(kind, clip_message(failure)),
                )
        self._wait_for_journal()

    def trial(self, trial_id: str) -> TrialRecord:
        """The trial as it stands. Raises UsageError for an unknown one."""
        if trial := self.history.trials.get(trial_id):
            return trial
        raise errors.UsageError(f"{self.spec.name} has no trial {trial_id[:20]!r}")

    def _wait_for_journal(self) -> None:
        """Wait, without the lock, until the storage has what the answer tells the client."""
        if self._driver is not None:
            self._driver.sync.await_journal()

    # The methods below hold the lock

    @contextmanager
    def _lock_and_settle(self) -> Iterator[None]:
        """Ends what is due before and after a call."""
        with self._lock:
            self._settle()
            yield
            self._settle()

    def _settle(self) -> None:
        """End silent trials and, if it is over, the search. Raises `error`."""
        if not self.is_over:
            driver = self._opened
            driver.steering.answer_requests()
            self._trials.end_silent()
            is_over = driver.is_over()
            self.error = driver.error or driver.stop.error
            if self.error is not None:
                self._end_search(events.FAILED)
            elif is_over or (driver.queue.is_empty and not self._trials.clients):
                self._end_search(events.COMPLETED)
        if self.error is not None:
            raise self.error
        if self._is_closed:
            message = f"{self.spec.name} is closed: ask again once it is opened"
            raise errors.SearchClosedError(message)

    def _end_search(self, status: str) -> None:
        """Journal how the search has ended, and release the experiment."""
        self.is_over = True
        self._listening.close()  # refuses late requests, in the journal
        self._trials.clients.clear()
        self._opened.record_search_end(status)
        self.error = self.error or self._opened.error
        try:
            self._held.close()
        except errors.TunerError as error:
            self.error = self.error or error  # the first failure causes the others

    def _complete(self, trial_id: str, failure: Failure | None) -> None:
        """End a running trial; one without a report has failed."""
        if failure is None and not self.trial(trial_id).results:
            failure = Failure("bad_report", "completed without a report")
        self._trials.end(
            trial_id, events.FAILED if failure else events.COMPLETED, failure
        )

    def _is_running(self, trial_id: str) -> bool:
        """Whether the trial runs; notes that its client has called. Raises as `trial` does."""
        self.trial(trial_id)
        client = self._trials.clients.get(trial_id)
        if client is not None:
            client.last_seen = self._opened.journal.clock()
        return client is not None

    def _watch(self, over: threading.Event) -> None:
        """End what is due while nobody calls."""
        while not self.is_over and not over.wait(_TICK_S):
            with self._lock, suppress(errors.TunerError):  # the next call raises it
                self._settle()

    @property
    def _opened(self) -> Driver:
        assert self._driver is not None, (
            "AskTell is a context: with AskTell(...) as search"
        )
        return self._driver

    def _open(self, held: ExitStack) -> None:
        """Hold the experiment, and go on from the end of its journal."""
        spec = self._plan.spec
        folder = ExperimentFolder(spec.folder)
        driver = held.enter_context(Driver.open(self._plan, folder, clock=self._clock))
        is_done = (
            not self._is_new and load_if_finished(folder.path, self._more) is not None
        )
        driver.restore()
        history = driver.history
        driver.spent_s = history.duration_s
        had_to_stop = history.status == events.COMPLETED or driver.retry_failed
        driver.observers = [TensorBoardWriter(spec, history)]
        if not is_done:
            held.enter_context(
                driver.sync.keep_synced(driver.journal, driver.stop.fail)
            )
            for name in spec.log:
                tracker = Tracker(name, spec, history)
                held.callback(tracker.close)
                driver.observers.append(tracker)
            if self._extended is not None:
                folder.write(EXPERIMENT, self._extended)
            driver.record_search_start(resumed=not self._is_new)
        self._driver = driver
        self._trials = _Trials(driver)
        self._trials.take_up(had_to_stop=had_to_stop)
        self.is_over = is_done


def _prepare_elsewhere(spec: ExperimentSpec) -> Plan:
    """The plan of a new experiment. Raises SpecError for another trainable than "elsewhere"."""
    if "trainable" not in spec.model_fields_set:
        spec = spec.replace(trainable=ELSEWHERE)
    if not spec.is_elsewhere:
        rule = f"must be {ELSEWHERE!r}, or left out: what asks for configs trains by itself"
        raise errors.SpecError([errors.Fault("trainable", rule, str(spec.trainable))])
    return prepare(spec)


def _prepare_resume(
    folder: ExperimentFolder, more: Extension
) -> tuple[Plan, dict[str, Any] | None]:
    """(the plan of the experiment in `folder`, its experiment.json, or None if that stays).

    Both know the same controls. One that is journaled later stays in the journal. Raises UsageError
    or SpecError.
    """
    folder.refresh()
    raw = folder.read_document()["spec"]
    if raw.get("trainable") != ELSEWHERE:
        raise errors.UsageError(
            f"the trials of {folder.name} do not run elsewhere: it trains {raw.get('trainable')}"
        )
    document = read_current_document(folder)
    extended = more.apply(document, folder)
    moved = {"name": folder.name, "storage": folder.storage}
    plan = prepare(
        {**extended["spec"], **moved}, source=folder.locate(EXPERIMENT), recorded=True
    )
    written = {**extended, "spec": plan.spec.model_dump(mode="json")}
    return plan, written if extended != document else None


@dataclass(slots=True)
class _Client:
    """A client that runs a trial. repeats: the last epoch to repeat."""

    name: str | None = None
    repeats: int = 0
    last_seen: float = 0.0


class _Trials:
    """Hands trials to clients and records their reports. clients: by trial_id."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._history = driver.history
        self.clients: dict[str, _Client] = {}
        self._waiting: set[str] = set()  # trials that go on later, with any client

    def take_up(self, *, had_to_stop: bool) -> None:
        """Let unfinished trials go on with their clients or, if these had to stop, with others."""
        driver = self._driver

        def has_left(trial: TrialRecord) -> bool:
            return had_to_stop or trial.client_left

        trials = sorted(driver.iterate_unfinished(), key=has_left)
        driver.begin(map(_build_assignment, trials), fits=lambda: UNBOUNDED)
        for trial in trials:
            if has_left(trial):
                self._waiting.add(trial.trial_id)
            else:  # it keeps its trial, even if fewer may run by now
                assignment = driver.queue.pop_next()
                assert assignment is not None
                self._start(assignment, _Client(trial.client))

    def find_client_trial(self, name: str | None) -> TrialRecord | None:
        """The trial of the client of this name, which may report it again from its start."""
        for trial_id, client in self.clients.items():
            if name is not None and client.name == name:
                trial = self._history.trials[trial_id]
                client.last_seen = self._driver.journal.clock()
                client.repeats = trial.last_epoch
                return trial
        return None

    def start_next(self, name: str | None) -> TrialRecord | None:
        """Start the next trial, for the client of this name; None while there is none."""
        queue = self._driver.queue
        if queue.is_full or (assignment := queue.pop_next()) is None:
            return None
        trial_id = assignment.trial_id
        client = _Client(name)
        if trial_id in self._waiting:
            self._waiting.remove(trial_id)
            client.repeats = self._history.trials[trial_id].last_epoch
        self._start(assignment, client)
        return self._history.trials.get(trial_id)

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
        elif not self.end_if_requested(trial_id):
            driver.queue.report(trial_id, {**metrics, "training_iteration": epoch})

    def end_if_requested(self, trial_id: str) -> bool:
        """End a running trial if a user requested that, or a pause; returns whether it ended."""
        driver = self._driver
        if not driver.steering.should_end(trial_id):
            return False
        status, control = driver.steering.pop_requested_end(trial_id) or (
            events.STOPPED,
            "",
        )
        self.end(trial_id, status, control=control)
        if status == events.INTERRUPTED:
            self._waiting.add(trial_id)
            driver.queue.retry(_build_assignment(self._history.trials[trial_id]))
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
        result = find_last_result(self._history.trials[trial_id])
        driver.queue.release(trial_id, result, failed=failure is not None)
        if failure is not None:
            driver.queue.report_failure(trial_id, failure.kind)

    def end_silent(self) -> None:
        """End the trials whose clients have not called for `timeouts.report_s`."""
        now = self._driver.journal.clock()
        limit_s = self._driver.spec.timeouts.report_s
        failure = Failure("timeout", f"nothing heard of it in {limit_s:g} s")
        for trial_id, client in list(self.clients.items()):
            if now - client.last_seen >= limit_s:
                self.end(trial_id, events.FAILED, failure)

    def _start(self, trial: Assignment, client: _Client) -> None:
        details = {"origin": trial.origin, "seed": trial.seed, "client": client.name}
        self._driver.start(trial.trial_id, trial.config, **details)
        client.last_seen = self._driver.journal.clock()
        self.clients[trial.trial_id] = client

    def _is_repeated(self, trial_id: str, epoch: int, value: float) -> bool:
        trial = self._history.trials[trial_id]
        client = self.clients[trial_id]
        if epoch > trial.last_epoch:
            return False
        reports = trial.list_values(self._driver.spec.objective.metric)
        if epoch <= client.repeats or reports[-1] == (epoch, value):
            return True
        raise errors.UsageError(
            f"epoch {epoch} of trial {trial_id} must come after {trial.last_epoch}, which is "
            "recorded with its values"
        )


def _build_assignment(trial: TrialRecord) -> Assignment:
    return Assignment(trial.trial_id, trial.config, seed=trial.seed)
