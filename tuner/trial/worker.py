"""One worker of a trial: it builds a Learner on its device, steps it, and saves its state.

A trial of one worker has it in its own process; a trial of several has one in the process of each
rank. The same code serves both, and needs no Ray.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tuner.experiment.trials import CheckpointRecord
from tuner.trial.checkpoints import CheckpointStore, CheckpointWriter, Save, load_state
from tuner.trial.context import Assignment, TrialContext, add_trial_seed
from tuner.trial.gpu_memory import claim_gpu
from tuner.trial.learner import Learner
from tuner.trial.memory import MemoryWatch, keep_freed
from tuner.trial.state import copy_to_host
from tuner.trial.trial_process import TrialProcess

if TYPE_CHECKING:
    import torch


class Worker:
    """Rank `rank` of a trial of `context.resources.ranks`."""

    def __init__(self, context: TrialContext, rank: int = 0) -> None:
        import torch

        self._context = context
        self._resources = context.resources
        self._rank = rank
        self._learner: Learner | None = None
        self._writer: CheckpointWriter | None = None
        self._rendezvous: Any = None
        self._process = TrialProcess(context)
        torch.set_num_threads(context.threads)
        keep_freed()

    def begin(self, assignment: Assignment) -> None:
        """Build the Learner, and restore the checkpoint that the assignment starts from.

        The trial's seed, if any, replaces the experiment's among the constants. Raises the errors
        of the Learner.
        """
        context = self._context
        resources = self._resources
        build = self._process.begin(assignment)
        self._watch = MemoryWatch(self._choose_device())
        store = CheckpointStore(context.folder, assignment.trial_id)
        self._learner = build(
            assignment.config,
            add_trial_seed(context.constants, assignment.seed),
            device=self._choose_device(),
            rank=self._rank,
            world_size=resources.ranks,
            **({"split": resources.split} if resources.split > 1 else {}),
        )
        is_copied = getattr(self._learner, "copies_state", False)
        self._writer = CheckpointWriter(store, dict if is_copied else copy_to_host)
        if assignment.checkpoint is not None:
            path = assignment.checkpoint["path"]
            sha256 = assignment.checkpoint["sha256"]
            self._learner.load_state_dict(load_state(store.fetch(path), sha256))
            store.release()

    def step(self) -> tuple[object, dict[str, float]]:
        """Train one epoch; what the Learner reports, and its memory and `data_s` meanwhile."""
        from tuner.trial.torch_compat import measure_loading_s

        assert self._learner is not None
        self._watch.begin()
        before = measure_loading_s()
        report = self._learner.step()
        waited = measure_loading_s() - before
        return report, {**self._watch.end(), **({"data_s": waited} if waited else {})}

    def save(self, epoch: int, how: Save, *, is_best: bool) -> list[CheckpointRecord]:
        """Save the state after `epoch`, to which all ranks may contribute; rank 0 writes it."""
        assert self._learner is not None
        assert self._writer is not None
        state = self._learner.state_dict()
        return (
            self._writer.save(epoch, state, how, is_best=is_best)
            if self._rank == 0
            else []
        )

    def written(self, *, wait: bool = False) -> list[CheckpointRecord]:
        """The checkpoints written beside training since the last call; wait: until they are."""
        return self._writer.collect_written(wait=wait) if self._writer else []

    def end(self) -> str | None:
        """Drop the Learner; returns why this process should not run another trial, or None."""
        if self._writer is not None:
            self._writer.close()
        self._learner = self._writer = None
        return self._process.end()

    def open_rendezvous(self, host: str) -> int:
        """Rank 0: the port on `host` at which the ranks meet; the system chooses a free one."""
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # On this address alone: torch's own socket would listen on all of them
        with socket.create_server((host, 0), family=family) as server:
            port = int(server.getsockname()[1])
            self._rendezvous = TCPStore(
                host,
                port,
                self._resources.ranks,
                is_master=True,
                wait_for_workers=False,
                timeout=timedelta(seconds=self._context.timeouts.ranks_s),
                master_listen_fd=server.detach(),
            )
        return port

    def join(self, host: str, port: int) -> None:
        """Join the other ranks in a process group: nccl for GPUs, gloo for the host.

        Raises NoGpuError if a reserved GPU is missing.
        """
        import torch.distributed as dist

        # Else the others would wait for nccl
        claim_gpu(self._resources.gpus, through_torch=True)
        timeout = timedelta(seconds=self._context.timeouts.ranks_s)
        device = self._choose_device()
        cuda = device.type == "cuda"
        if self._rendezvous is None:
            self._rendezvous = dist.TCPStore(  # type: ignore[attr-defined]
                host, port, self._resources.ranks, is_master=False, timeout=timeout
            )
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=self._rendezvous,
            rank=self._rank,
            world_size=self._resources.ranks,
            timeout=timeout,
            device_id=device if cuda else None,  # else NCCL guesses by the rank
        )

    def _choose_device(self) -> torch.device:
        import torch

        # Ray shows a process only the GPUs that it reserved, so the first of them is its own
        cuda = self._resources.gpus > 0 and torch.cuda.is_available()
        return torch.device("cuda:0" if cuda else "cpu")
