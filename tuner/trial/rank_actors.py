"""The workers of a trial that has several: one actor a rank, in the trial's placement group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tuner import ray_compat
from tuner.trial.checkpoints import Save
from tuner.trial.context import Assignment, TrialContext, set_network_interface
from tuner.trial.failures import format_error, is_connection_error, is_rank_timeout
from tuner.trial.origins import keep_origin
from tuner.trial.trial_process import TrialLog
from tuner.trial.worker import Worker

# How long the other ranks may take to report what they saw of a failure
_SETTLE_S = 2.0
_END_S = 10.0  # how long a killed rank may take to be gone
_END_OF_LOG = 1 << 16  # bytes in which a rank that ends says why


class RankTimeoutError(RuntimeError):
    """The ranks did not come to the end of an epoch in time, or one waited too long for another."""


@contextmanager
def sendable_errors() -> Iterator[None]:
    """Turn what would end the actor, as a SystemExit of the Learner, into the trial's failure."""
    try:
        yield
    except BaseException as error:
        keep_origin(error)
        if isinstance(error, Exception):
            raise
        sent = RuntimeError(format_error(error))
        keep_origin(sent, of=error)
        raise sent from None


class _Rank:
    """A worker in a process of its own. Rank 0's output goes to log.txt, the others' beside it."""

    def __init__(self, context: TrialContext, rank: int) -> None:
        context.prepare_process()
        set_network_interface(ray.util.get_node_ip_address())
        self._context = context
        self._rank = rank
        self._worker = Worker(context, rank)
        self._log: TrialLog | None = None

    def ready(self) -> None:
        """Answer, once this process has its GPU."""

    def open_rendezvous(self) -> tuple[str, int]:
        host = ray.util.get_node_ip_address()
        return host, self._worker.open_rendezvous(host)

    @sendable_errors()
    def begin(self, assignment: Assignment) -> None:
        self._log = TrialLog(
            self._context.folder, format_log_name(assignment.trial_id, self._rank)
        )
        self._log.__enter__()
        self._worker.begin(assignment)

    @sendable_errors()
    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """What the worker's `method` returns; None on other ranks than 0."""
        try:
            result = getattr(self._worker, method)(*arguments, **options)
        finally:
            if self._log is not None:
                self._log.cap()
        return result if self._rank == 0 else None

    def end(self) -> str | None:
        reason = self._worker.end()
        if self._log is not None:
            self._log.__exit__()
            self._log = None
        return reason


class RankGroup:
    """Workers on all ranks of a trial, with the methods of a Worker; trials reuse the ranks.

    A failure on one rank ends them all, since the others would wait for it; the next trial gets new
    ranks. Use it inside an actor in the trial's placement group, which has a bundle for each rank.
    """

    def __init__(self, context: TrialContext) -> None:
        self._context = context
        self._ranks: list[Any] = []
        self._has_met = False
        self._trial_id: str | None = None

    def start(self) -> None:
        """Start the ranks if there are none; each waits for its GPU. Raises as `begin` does."""
        if self._ranks:
            return
        self._trial_id = None
        self._has_met = False
        group = get_current_placement_group()
        actor = ray.remote(_Rank)
        assert group is not None
        self._ranks = [
            actor.options(
                num_cpus=self._context.resources.cpus,
                num_gpus=self._context.resources.gpus,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=rank
                ),
            ).remote(self._context, rank)
            for rank in range(self._context.resources.ranks)
        ]
        self._run_method("ready")

    def begin(self, assignment: Assignment) -> None:
        """Build the Learner of every rank. Raises what the first rank to fail raised."""
        self.start()
        self._trial_id = assignment.trial_id
        if not self._has_met:
            rendezvous = self._run_method("open_rendezvous", only=0)[0]
            self._run_method("call", "join", *rendezvous)
            self._has_met = True
        self._run_method("begin", assignment)

    def step(self) -> Any:
        """Train one epoch on all ranks; as of a Worker, that of rank 0."""
        return self._run_method(
            "call", "step", timeout_s=self._context.timeouts.report_s
        )[0]

    def save(self, epoch: int, how: Save, *, is_best: bool) -> Any:
        """Save the state, which all ranks may contribute to, on rank 0."""
        return self._run_method("call", "save", epoch, how, is_best=is_best)[0]

    def written(self, *, wait: bool = False) -> Any:
        """As of a Worker, that of rank 0."""
        return (
            self._run_method("call", "written", wait=wait, only=0)[0]
            if self._ranks
            else []
        )

    def end(self) -> str | None:
        """Drop the Learners; the ranks stay for the next trial, where they may. Returns None."""
        try:
            reason = next(filter(None, self._run_method("end")), None)
        except Exception as error:  # `_run_method` has ended the ranks
            print(f"the next trial gets new ranks: {format_error(error)}")
            return None
        if reason:
            print(f"the next trial gets new ranks; of one of them: {reason}")
            self.close()
        return None

    def close(self) -> None:
        """End the ranks, and return when they are gone: their resources are then free."""
        ranks = self._ranks
        self._ranks = []
        for rank in ranks:
            ray.kill(rank)
        deadline = time.monotonic() + _END_S
        for number, rank in enumerate(ranks):
            if not ray_compat.has_ended(rank, max(0.0, deadline - time.monotonic())):
                print(
                    f"warning: rank {number} has not ended {_END_S:g} s after it was killed"
                )

    def _run_method(
        self,
        method: str,
        *arguments: Any,
        only: int | None = None,
        timeout_s: float | None = None,
        **options: Any,
    ) -> list[Any]:
        """The results of `method` on every rank, or on one; raises the first rank's error."""
        ranks = self._ranks if only is None else [self._ranks[only]]
        calls = [getattr(rank, method).remote(*arguments, **options) for rank in ranks]
        waiting = list(calls)
        errors: list[RayError] = []
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while waiting and not errors:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, waiting = ray.wait(waiting, timeout=left)
            if not done:
                self.close()
                raise RankTimeoutError(
                    f"no rank came to the end of its epoch in {timeout_s:g} s"
                )
            errors += _collect_errors(done)
        if errors:
            # A rank that dies breaks the others' connections, and their errors may come first
            if waiting:
                done, _ = ray.wait(waiting, num_returns=len(waiting), timeout=_SETTLE_S)
                errors += _collect_errors(done)
            self.close()
            limit_s = self._context.timeouts.ranks_s
            raise choose_cause(errors, limit_s=limit_s, has_waited=self._has_waited)
        return list(ray.get(calls))

    def _has_waited(self) -> bool:
        """Whether a log says that NCCL has ended a rank that waited too long."""
        for rank in range(self._context.resources.ranks):
            log = self._context.folder / format_log_name(self._trial_id or "", rank)
            with suppress(OSError):  # on another node, perhaps
                end = log.read_bytes()[-_END_OF_LOG:]
                if is_rank_timeout(end.decode(errors="replace")):
                    return True
        return False


def choose_cause(
    errors: list[RayError], *, limit_s: float, has_waited: Callable[[], bool]
) -> BaseException:
    """The error to raise: the original one, not its consequences on other ranks.

    limit_s: how long a rank may wait for another. has_waited: whether the log of a dead rank says
    that it has waited longer.
    """
    too_late = RankTimeoutError(
        f"a rank waited for another longer than timeouts.ranks_s, {limit_s:g} s"
    )
    died = next((error for error in errors if isinstance(error, RayActorError)), None)
    if died is not None:
        return too_late if has_waited() else died
    causes: list[BaseException] = [
        error.cause
        if isinstance(error, RayTaskError) and isinstance(error.cause, BaseException)
        else error
        for error in errors
    ]
    first = causes[0]
    late = [cause for cause in causes if is_rank_timeout(str(cause))]
    if late and (first is late[0] or is_connection_error(first)):
        print(format_error(late[0]))
        return too_late
    if first is not errors[0]:
        print(errors[0])  # with the traceback of the rank, for the trial's log
    return first


def _collect_errors(done: list[Any]) -> list[RayError]:
    errors = []
    for call in done:
        try:
            ray.get(call)
        except RayError as error:
            errors.append(error)
    return errors


def format_log_name(trial_id: str, rank: int) -> str:
    """The log of a trial's rank in the experiment's folder: the trial's own for rank 0."""
    return f"trials/{trial_id}/{'log' if rank == 0 else f'log.rank{rank}'}.txt"
