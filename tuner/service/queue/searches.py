"""A search of a queue while it runs: its process, what its journal says of it, and its limit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tuner.errors import JournalError, TunerError, UsageError
from tuner.experiment.control import control_of, request
from tuner.experiment.events import COMPLETED as EXPERIMENT_COMPLETED
from tuner.experiment.events import EXPERIMENT_ENDED, RUNNING
from tuner.experiment.events import INTERRUPTED as TRIAL_INTERRUPTED
from tuner.experiment.history import History
from tuner.experiment.reading import Tail, last_event
from tuner.experiment.remote.lease import Lease
from tuner.experiment.results.results import Results
from tuner.service.queue.entries import COMPLETED, ERROR, FAILED, INTERRUPTED, Entry, Queue
from tuner.service.queue.shares import Amounts, Demand, Room, Waiting, least, wanted
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.wording import printable_lines

AGAIN = "again"  # the search of an entry is to be gone on with

_BY = "queue"  # who asks for another limit
_DONE = (0, 3)  # exit codes of a search that is done; with 3 some of its trials failed
_ASKING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# The negative ones are of a driver that was asked before it had begun to listen
_ASKED_TO_END = (*(128 + n for n in _ASKING), *(-n for n in _ASKING))
_TRIES = 3  # of a search whose driver is killed
_TOLD_LINES, _TOLD_BYTES = 5, 32 << 10  # of the log, where a search has failed


def spec_of(entry: Entry) -> ExperimentSpec:
    """The spec of an entry. Raises SpecError where it is none."""
    return build_spec(entry.spec, f"the entry {entry.name}")


def amounts_of(spec: ExperimentSpec) -> Amounts:
    """What one trial reserves; of a share of a GPU, what nobody with the same share can use."""
    resources, gpus = spec.resources, spec.resources.gpus
    if 0 < gpus < 1:
        gpus = 1 / int(1 / gpus + 1e-9)
    return Amounts(resources.ranks * resources.cpus, resources.ranks * gpus)


def waiting(entry: Entry) -> Waiting:
    """An entry that waits, as it is given its turn; one without a sound spec fails as it starts."""
    try:
        spec = spec_of(entry)
    except TunerError:
        return Waiting(entry.name, entry.user, entry.added, Amounts(1), most=1)
    most = least(spec.max_concurrent, spec.trials)
    return Waiting(entry.name, entry.user, entry.added, amounts_of(spec), most=most)


def limit_of(history: History) -> int | None:
    """How many trials at a time its present driver was last asked to run; None: it was not."""
    return history.steered.changes.get("max_concurrent")


def left_of(history: History, spec: ExperimentSpec) -> int | None:
    """How many trials have yet to end; None where only the time budget ends the search.

    One at least: at its end a search evaluates its best.
    """
    live = history.counts[RUNNING]
    if history.steered.finishing:
        return max(1, live)
    samples = history.steered.samples or spec.num_samples
    total = history.total(spec.search.trials(samples))
    unfinished = live + history.counts[TRIAL_INTERRUPTED]
    return None if total is None else max(1, total - len(history.trials) + unfinished)


class Search:
    """The search of an entry that a runner has.

    process: None where a runner before this one has started it. limit: how many trials at a time
    it was started with; None: not known.
    """

    def __init__(
        self,
        queue: Queue,
        entry: Entry,
        spec: ExperimentSpec,
        lease: Lease,
        process: subprocess.Popen[bytes] | None,
        *,
        limit: int | None = None,
    ) -> None:
        self.entry, self.lease, self.process = entry, lease, process
        self._spec = spec
        self._folder = queue.experiment(entry.name)
        self._tail = Tail(self._folder.path)
        self._history = History(metrics=())
        self._begun_with, self._asked = limit, limit

    @property
    def each(self) -> Amounts:
        """What one of its trials reserves."""
        return amounts_of(self._spec)

    @property
    def has_ended(self) -> bool:
        """Whether its driver has."""
        if self.process is not None:
            return self.process.poll() is not None
        return not self._folder.is_driven

    def read(self) -> None:
        """Read what is new in its journal."""
        with suppress(JournalError, OSError):  # it has not begun; a damaged one ends its driver
            if self.process is None:
                self._folder.refresh()
            for event in self._tail.read():
                self._history.apply(event)

    def demand(self, capacity: Room) -> Demand:
        """What it wants, and may hold, of a machine or cluster of this `capacity`."""
        each, left, live = self.each, self._left, self._history.counts[RUNNING]
        in_force = limit_of(self._history) or self._begun_with or wanted(each, capacity)
        may_run = max(in_force, self._asked or 0)
        holds = max(live, may_run if left is None else min(may_run, left))
        most = 1 if self._history.steered.paused else least(left, self._spec.max_concurrent)
        wants = wanted(each, capacity, most=most)
        return Demand(self.entry.name, self.entry.user, each, wants, holds)

    @property
    def _left(self) -> int | None:
        return left_of(self._history, self._spec)

    def limit(self, most: int) -> None:
        """Ask it to run at most so many trials at a time; once more later where it cannot hear.

        It is not asked for less where it has no more left in any case.
        """
        asked, left = self._asked or 0, self._left
        if most == asked or (left is not None and left <= most < asked):
            return
        with suppress(TunerError):
            request(self._folder, control_of("max-concurrent", most), by=_BY)
            self._asked = most

    def end(self) -> None:
        """Ask its process, if it is this runner's, to end: it can be gone on with."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def verdict(code: int | None, *, came_to: str | None, tries: int) -> str:
    """What becomes of an entry whose driver has ended: a status, or AGAIN.

    code: the exit code; negative: a signal killed it; None: another runner had started it. came_to:
    what the journal says. tries: how often this runner has started it.
    """
    if code in _DONE or (code == UsageError.exit_code and came_to == COMPLETED):
        return COMPLETED  # the 2nd: another driver was faster, and this one was refused
    if code in _ASKED_TO_END:
        return INTERRUPTED
    if code is None and came_to is not None:
        return came_to
    if code is None or code < 0:
        return AGAIN if tries < _TRIES else FAILED
    return FAILED


def outcome_of(folder: Path) -> str | None:
    """What a search came to, by its journal, as its exit code says it; None: it was killed."""
    event = last_event(folder) or {}
    if event.get("event") != EXPERIMENT_ENDED:
        return None
    if event.get("status") == EXPERIMENT_COMPLETED:
        with suppress(TunerError):
            return COMPLETED if Results(folder).top(1) else FAILED
    return INTERRUPTED if event.get("status") == INTERRUPTED else FAILED


def is_completed(folder: Path) -> bool:
    """Whether the experiment's journal ends so."""
    event = last_event(folder) or {}
    ended = event.get("event") == EXPERIMENT_ENDED
    return ended and event.get("status") == EXPERIMENT_COMPLETED


def started(
    command: Sequence[str], entry: Entry, log: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """The process of a command, which goes on if this one is killed; raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    inherited = environment.get("PYTHONPATH")
    paths = [*entry.paths, *([inherited] if inherited else [])]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=entry.directory,
            env={**environment, **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal is the runner's, which ends it
        )


def why_of(log: Path) -> str:
    """Why a search has failed: its error and what follows, else the last lines of its log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TOLD_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.rstrip() for line in printable_lines(text).splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith(ERROR)]
    told = lines[errors[-1] :][:_TOLD_LINES] if errors else lines[-_TOLD_LINES:]
    return "\n".join(told)
