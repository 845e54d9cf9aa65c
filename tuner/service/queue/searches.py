"""A running search of a queue: its process, its state by the journal, its limit of trials."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from typing import Any

import psutil

from tuner.errors import ExperimentError, JournalError, TunerError, UsageError
from tuner.experiment import events
from tuner.experiment.control import build_control, send_request
from tuner.experiment.files import REFITTED, seek_tail
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.reading import Tail, read_last_event
from tuner.experiment.remote.lease import Lease
from tuner.experiment.results.confirmation import find_linked_folders, should_refit
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.service.queue.entries import (
    COMPLETED,
    ERROR,
    FAILED,
    INTERRUPTED,
    Entry,
    Queue,
)
from tuner.service.queue.shares import Amounts, Demand
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.wording import clean_lines

AGAIN = "again"  # the verdict on a search to resume

_BY = "queue"  # the user who requests limits
_DONE = (0, 3)  # exit codes of a completed search; with 3 some of its trials failed
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# Negative: the signal came before the driver handled signals
_INTERRUPTED = (*(128 + number for number in _ENDING), *(-number for number in _ENDING))
_TRIES = 3  # starts of a search whose driver is killed before it reports anything
_MARK = "TUNER_QUEUE_ENTRY"  # in the environment of a driver: the nonce of its entry
_LOG_LINES = 5
_LOG_BYTES = 32 << 10  # of a failed search, that are kept


def build_entry_spec(entry: Entry) -> ExperimentSpec:
    return build_spec(entry.spec, f"the entry {entry.name}")


def compute_amounts(spec: ExperimentSpec) -> Amounts:
    """The resources of one trial. A GPU's fraction includes the rest that no equal one can use."""
    resources = spec.resources
    gpus = spec.resources.gpus
    if 0 < gpus < 1:
        gpus = 1 / int(1 / gpus + 1e-9)
    return Amounts(resources.ranks * resources.cpus, resources.ranks * gpus)


def estimate_waiting_demand(entry: Entry) -> Demand:
    """The demand of an entry that waits. One with an invalid spec fails when it starts."""
    try:
        spec = build_entry_spec(entry)
    except TunerError:
        return Demand(entry.name, entry.user, Amounts(1), most=1, added=entry.added)
    most = _find_least(spec.max_concurrent, spec.trials)
    return Demand(
        entry.name, entry.user, compute_amounts(spec), most=most, added=entry.added
    )


def _find_least(*counts: int | None) -> int | None:
    return min((count for count in counts if count is not None), default=None)


def count_remaining(history: History, spec: ExperimentSpec) -> int | None:
    """How many trials have yet to end, at least 1; None if only a time budget ends the search.

    At its end a search still evaluates its best trial.
    """
    live = history.counts[events.RUNNING]
    if history.steered.finishing:
        return max(1, live)
    samples = history.steered.samples or spec.num_samples
    total = history.count_trials(spec.search.trials(samples))
    unfinished = live + history.counts[events.INTERRUPTED]
    return None if total is None else max(1, total - len(history.trials) + unfinished)


class Search:
    """The search of an entry, whose `lease` the runner has.

    process: None if an earlier runner has started it. limit: its limit of trials when it started.
    is_new: whether its process was to create the experiment.
    """

    def __init__(
        self,
        queue: Queue,
        entry: Entry,
        spec: ExperimentSpec,
        lease: Lease,
        process: subprocess.Popen[bytes] | None,
        *,
        limit: int,
        is_new: bool = False,
    ) -> None:
        self.entry = entry
        self.lease = lease
        self.process = process
        self.is_new = is_new
        self._spec = spec
        self._folder = queue.find_folder(entry.name)
        self._tail = Tail(self._folder.path)
        self._history = History(metrics=())
        self._first_limit = limit
        self._requested = limit
        self._owner: dict[str, Any] | None = None  # the present driver by the journal
        self._reports = 0  # of the present driver
        self._is_asked_to_end = False

    @property
    def has_ended(self) -> bool:
        if self.process is not None:
            return self.process.poll() is not None
        # After the search its driver trains a refit, and measures the model
        return self._find_adopted_driver() is None and not is_at_work(self._folder)

    def read(self) -> None:
        with suppress(JournalError, OSError):
            # Not yet created; a damaged one ends its driver
            if self.process is None:
                self._folder.refresh()
            for event in self._tail.read():
                self._history.apply(event)
                if event["event"] == events.EXPERIMENT_STARTED:
                    self._owner = event["owner"]
                    self._reports = 0
                self._reports += event["event"] == events.RESULT

    @property
    def progress(self) -> int | None:
        """How many reports its own process has journaled; None if it did not begin the search."""
        if self.process is None:
            return self._reports
        has_begun = self._owner is not None and self._owner["pid"] == self.process.pid
        return self._reports if has_begun else None

    def estimate_demand(self) -> Demand:
        """How many trials it can use, and may be running now."""
        left = count_remaining(self._history, self._spec)
        live = self._history.counts[events.RUNNING]
        # By the present driver
        accepted = self._history.steered.changes.get("max_concurrent")
        may_run = max(accepted or self._first_limit, self._requested)
        holds = max(live, may_run if left is None else min(may_run, left))
        most = (
            1
            if self._history.steered.paused
            else _find_least(left, self._spec.max_concurrent)
        )
        each = compute_amounts(self._spec)
        return Demand(self.entry.name, self.entry.user, each, most=most, holds=holds)

    def request_limit(self, most: int) -> None:
        """Request a limit of trials at a time; the next turn repeats a request that fails.

        A lower limit is not requested if the search has no more trials left than that.
        """
        left = count_remaining(self._history, self._spec)
        if most == self._requested or (
            left is not None and left <= most < self._requested
        ):
            return
        with suppress(TunerError):
            send_request(self._folder, build_control("max-concurrent", most), by=_BY)
            self._requested = most

    def end(self) -> None:
        """Ask its driver to end, if a runner on this machine has started it; it can be resumed."""
        if self.process is None and self._owner is None:
            self.read()  # the driver may have begun since
        driver = self.process or self._find_adopted_driver()
        if driver is not None and not self._is_asked_to_end:
            with suppress(psutil.Error):  # it has just ended
                driver.terminate()
            self._is_asked_to_end = True

    @property
    def is_out_of_reach(self) -> bool:
        """Whether its driver is known, and `end` cannot ask it to end."""
        is_known = self.process is not None or self._owner is not None
        return is_known and not self._is_asked_to_end

    def _find_adopted_driver(self) -> psutil.Process | None:
        """The driver that an earlier runner has started on this machine, or None.

        Its environment has the mark of its entry: a user may have resumed the search by hand, and
        a pid may be another container's.
        """
        if self._owner is None or self._owner["host"] != gethostname():
            return None
        with suppress(psutil.Error):
            process = psutil.Process(self._owner["pid"])
            if process.environ().get(_MARK) == self.entry.nonce:
                return process
        return None


def choose_status(
    code: int | None, *, outcome: str | None, tries: int, progress: int | None
) -> str:
    """The status of an entry whose driver has ended, or AGAIN.

    code: the exit code; negative: a signal; None: unknown, since another runner had started it.
    outcome: that of the journal. tries: how often this runner has started it since the search last
    reported anything. progress: that of the search.
    """
    if code in _DONE or (code == UsageError.exit_code and outcome == COMPLETED):
        # The latter: another driver was faster, and this one was refused
        return COMPLETED
    if code in _INTERRUPTED:
        return INTERRUPTED
    if code is None and outcome is not None:
        return outcome
    is_killed = code is None or code < 0
    # The driver ends itself as by a kill when its Ray dies
    has_lost_ray = (
        code == ExperimentError.exit_code and outcome is None and progress is not None
    )
    if is_killed or has_lost_ray:
        return AGAIN if progress or tries < _TRIES else FAILED
    return FAILED


def is_at_work(folder: ExperimentFolder) -> bool:
    """Whether a live driver has the search, or the refit with which it ends."""
    if folder.is_driven:
        return True
    refits: list[Path] = []
    with suppress(TunerError):  # it does not exist yet, or is damaged
        refits = find_linked_folders(Described(folder.path), REFITTED)
    return any(ExperimentFolder(path).is_driven for path in refits)


def find_outcome(folder: Path) -> str | None:
    """The outcome of a search by its journal; None: it was killed, or its refit is not there."""
    event = read_last_event(folder) or {}
    if event.get("event") != events.EXPERIMENT_ENDED:
        return None
    if event.get("status") == events.COMPLETED:
        with suppress(TunerError):
            results = Results(folder)
            if should_refit(results):
                return None
            return COMPLETED if results.top(1) else FAILED
    return INTERRUPTED if event.get("status") == INTERRUPTED else FAILED


def start_command(
    command: Sequence[str], entry: Entry, log: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command, which continues if this process is killed; raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    inherited = environment.get("PYTHONPATH")
    paths = [*entry.paths, *([inherited] if inherited else [])]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=entry.directory,
            env={
                **environment,
                **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}),
                _MARK: entry.nonce,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches the runner alone, which ends the search
            start_new_session=True,
        )


def read_failure(log: Path) -> str:
    """Why a search has failed: the last error in its log and what follows, or the last lines."""
    try:
        with log.open("rb") as file:
            seek_tail(file, _LOG_BYTES)
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.rstrip() for line in clean_lines(text).splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith(ERROR)]
    shown = lines[errors[-1] :][:_LOG_LINES] if errors else lines[-_LOG_LINES:]
    return "\n".join(shown)
