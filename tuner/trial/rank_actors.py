"""The workers of a trial that has several: one actor a rank, in the trial's placement group."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tuner.trial.assignment import Assignment
from tuner.trial.checkpoint_store import Saved
from tuner.trial.network_interfaces import meet_by
from tuner.trial.recycling import why_not_again
from tuner.trial.trial_log import TrialLog
from tuner.trial.worker import Plan, Worker

P = ParamSpec("P")
R = TypeVar("R")

_SETTLE_S = 2.0  # how long the ranks that are left may take to say what they saw of a failure
_END_S = 10.0  # how long a killed rank may take to be gone


class RankTimeoutError(RuntimeError):
    """The ranks did not come to the end of an epoch in time."""


def _stays(method: Callable[P, R]) -> Callable[P, R]:
    """Keep a SystemExit of the Learner from ending the actor: it is the trial's failure."""

    @wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except SystemExit as error:
            raise RuntimeError(f"SystemExit: {error.code}") from error

    return wrapped


class _Rank:
    """A worker in a process of its own. Rank 0's output goes to log.txt, the others' beside it."""

    def __init__(self, plan: Plan, rank: int) -> None:
        plan.enter()
        self._plan = plan
        self._rank = rank
        self._worker = Worker(plan, rank)
        self._log: TrialLog | None = None

    def open_rendezvous(self) -> tuple[str, int]:
        host = ray.util.get_node_ip_address()
        return host, self._worker.open_rendezvous(host)

    def join(self, host: str, port: int) -> None:
        meet_by(ray.util.get_node_ip_address())
        self._worker.join(host, port)

    @_stays
    def begin(self, assignment: Assignment) -> None:
        name = "log.txt" if self._rank == 0 else f"log.rank{self._rank}.txt"
        self._log = TrialLog(self._plan.folder / "trials" / assignment.trial_id / name)
        self._log.__enter__()
        self._worker.begin(assignment)

    @_stays
    def step(self) -> object:
        told = self._worker.step()
        return told if self._rank == 0 else None

    def save(self, epoch: int) -> Saved | None:
        return self._worker.save(epoch)

    def end(self) -> float:
        grown_mib = self._worker.end()
        if self._log is not None:
            self._log.__exit__()
            self._log = None
        return grown_mib


class RankGroup:
    """Does on all ranks what a Worker does on one; the ranks live on from trial to trial.

    Whatever goes wrong on one rank ends them all, since the others would wait for it; the next
    trial gets new ones. To be used inside an actor that runs in the trial's placement group, which
    has a bundle for each rank.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ranks: list[Any] = []

    def begin(self, assignment: Assignment) -> None:
        """Build the Learner of every rank. Raises what the first rank to fail raised."""
        if not self._ranks:
            self._ranks = self._start()
            rendezvous = self._all("open_rendezvous", only=0)[0]
            self._all("join", *rendezvous)
        self._all("begin", assignment)

    def step(self) -> tuple[object, dict[str, float]]:
        """Train one epoch on all ranks; what rank 0 reports, reduced over them, and its memory."""
        told: tuple[object, dict[str, float]]
        told = self._all("step", timeout_s=self._plan.report_timeout_s)[0]
        return told

    def save(self, epoch: int) -> Saved:
        """Rank 0 writes the checkpoint; what is in it may come from all of them."""
        saved: Saved = self._all("save", epoch)[0]
        return saved

    def end(self) -> float:
        """Let go of the Learners; the ranks stay for the next trial, where they may.

        Returns 0: this process, which only watches, keeps nothing.
        """
        try:
            grown_mib = max(self._all("end"), default=0.0)
        except Exception as error:  # it has ended them all
            print(f"the next trial gets new ranks: {error}")
            return 0.0
        reason = why_not_again(grown_mib=grown_mib)
        if reason:
            print(f"the next trial gets new ranks; of the largest: {reason}")
            self.close()
        return 0.0

    def close(self) -> None:
        """End the ranks, and return when they are gone: their resources are then free."""
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            ray.kill(rank)
        deadline = time.monotonic() + _END_S
        for rank in ranks:
            with suppress(RayError):  # this is what a dead actor answers
                left = max(0.0, deadline - time.monotonic())
                ray.get(rank.__ray_ready__.remote(), timeout=left)

    def _start(self) -> list[Any]:
        group = get_current_placement_group()
        assert group is not None
        actor = ray.remote(_Rank)
        return [
            actor.options(
                num_cpus=self._plan.cpus,
                num_gpus=self._plan.gpus,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=rank
                ),
            ).remote(self._plan, rank)
            for rank in range(self._plan.ranks)
        ]

    def _all(
        self, method: str, *arguments: Any, only: int | None = None, timeout_s: float | None = None
    ) -> list[Any]:
        """What `method` returns on every rank (or on one), or the error of the first that fails."""
        ranks = self._ranks if only is None else [self._ranks[only]]
        calls = [getattr(rank, method).remote(*arguments) for rank in ranks]
        waiting = list(calls)
        errors: list[RayError] = []
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while waiting and not errors:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, waiting = ray.wait(waiting, timeout=left)
            if not done:
                self.close()
                raise RankTimeoutError(f"no rank came to the end of {method} in {timeout_s:g} s")
            errors += _errors(done)
        if errors:
            # A rank that dies breaks the others' connections: their errors may come first
            if waiting:
                done, _ = ray.wait(waiting, num_returns=len(waiting), timeout=_SETTLE_S)
                errors += _errors(done)
            self.close()
            raise _cause(errors)
        return list(ray.get(calls))


def _errors(done: list[Any]) -> list[RayError]:
    found = []
    for call in done:
        try:
            ray.get(call)
        except RayError as error:
            found.append(error)
    return found


def _cause(errors: list[RayError]) -> BaseException:
    """What to tell: the death of a rank before what the others made of it."""
    for error in errors:
        if isinstance(error, RayActorError):
            return error
    first = errors[0]
    if isinstance(first, RayTaskError) and isinstance(first.cause, BaseException):
        print(first)  # with the traceback of the rank, for the trial's log
        return first.cause
    return first
