"""One worker of a trial: it builds a Learner on its device, steps it, and saves its state.

A trial of one worker holds it in its own process; a trial of several has one in each rank's. The
same code serves both, and it needs no Ray.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.places import experiment_here
from tuner.trial.assignment import Assignment
from tuner.trial.checkpoint_store import CheckpointStore, Saved, load_state
from tuner.trial.learner import Learner
from tuner.trial.loading import load_trainable
from tuner.trial.recycling import Leftovers

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Plan:
    """What all trials of an experiment share, sent to each worker once.

    place: the experiment's folder, or its URL. trainable: its dotted path. constants: what every
    Learner is built with, `seed` and `epochs` among them. epochs: the length of a whole trial, None
    for a function that ends by itself. cpus, gpus: what each rank reserved. ranks: the processes
    that a trial trains in; split: 1, or how many stages of one model they are. report_timeout_s:
    the longest that an epoch may take; ranks_timeout_s: the longest that one rank waits for
    another. sys_path: where modules are found. directory: where the user stands.
    """

    place: str
    trainable: str
    constants: dict[str, Any]
    metric: str
    epochs: int | None
    cpus: float
    gpus: float
    ranks: int
    split: int
    report_timeout_s: float
    ranks_timeout_s: float
    sys_path: tuple[str, ...]
    directory: str

    @property
    def folder(self) -> Path:
        """The experiment's folder on this machine."""
        return experiment_here(self.place)

    def enter(self) -> None:
        """Let this process find the user's modules, and files by their relative paths."""
        sys.path += [entry for entry in self.sys_path if entry not in sys.path]
        if os.path.isdir(self.directory):  # another node may not have it
            os.chdir(self.directory)


def own_seed(seed: int | None) -> dict[str, Any]:
    """The constant that a trial's own seed is to its Learner; none where it has no own."""
    return {} if seed is None else {"seed": seed}


class Worker:
    """Rank `rank` of a trial of `plan.ranks`."""

    def __init__(self, plan: Plan, rank: int = 0) -> None:
        import torch

        self._plan = plan
        self._rank = rank
        self._learner: Learner | None = None
        self._rendezvous: Any = None
        self._leftovers = Leftovers()
        torch.set_num_threads(max(1, int(plan.cpus)))
        if 0 < plan.gpus < 1 and torch.cuda.is_available():  # those who share the GPU get theirs
            torch.cuda.set_per_process_memory_fraction(plan.gpus)

    def begin(self, assignment: Assignment) -> None:
        """Build the Learner and go to where the assignment starts. Raises what the Learner does.

        A seed of the trial's own takes the place of the experiment's among the constants.
        """
        from tuner.trial.memory import MemoryWatch

        build = load_trainable(self._plan.trainable)
        self._watch = MemoryWatch(self._device())
        self._store = CheckpointStore(self._plan.folder, assignment.trial_id)
        self._learner = build(
            assignment.config,
            self._plan.constants | own_seed(assignment.seed),
            device=self._device(),
            rank=self._rank,
            world_size=self._plan.ranks,
            **({"split": self._plan.split} if self._plan.split > 1 else {}),
        )
        if assignment.checkpoint is not None:
            path, sha256 = assignment.checkpoint["path"], assignment.checkpoint["sha256"]
            self._learner.load_state_dict(load_state(self._store.bring(path), sha256))
            self._store.let_go()

    def step(self) -> tuple[object, dict[str, float]]:
        """Train one epoch; what the Learner reports, and what memory it took."""
        assert self._learner is not None
        self._watch.begin()
        report = self._learner.step()
        return report, self._watch.end()

    def save(self, epoch: int) -> Saved | None:
        """Write the Learner's state as the checkpoint of `epoch`; rank 0 does, for all."""
        assert self._learner is not None
        state = self._learner.state_dict()
        return self._store.save(epoch, state) if self._rank == 0 else None

    def end(self) -> float:
        """Let go of the Learner; MiB that the process keeps of trials, as `Leftovers` tells."""
        self._learner = None
        return self._leftovers.clear()

    def close(self) -> None:
        """End the worker: nothing of it stays."""
        self.end()

    def open_rendezvous(self, host: str) -> int:
        """Rank 0: the port on `host` at which the ranks meet; the system chooses a free one."""
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as server:  # torch's own is open to all
            port = int(server.getsockname()[1])
            self._rendezvous = TCPStore(
                host,
                port,
                self._plan.ranks,
                is_master=True,
                wait_for_workers=False,
                timeout=timedelta(seconds=self._plan.ranks_timeout_s),
                master_listen_fd=server.detach(),
            )
        return port

    def join(self, host: str, port: int) -> None:
        """Meet the other ranks and form the process group: nccl for GPUs, gloo for the host."""
        import torch.distributed as dist

        timeout = timedelta(seconds=self._plan.ranks_timeout_s)
        if self._rendezvous is None:
            self._rendezvous = dist.TCPStore(  # type: ignore[attr-defined]
                host, port, self._plan.ranks, is_master=False, timeout=timeout
            )
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self._device().type == "cuda" else "gloo",
            store=self._rendezvous,
            rank=self._rank,
            world_size=self._plan.ranks,
            timeout=timeout,
        )

    def _device(self) -> torch.device:
        import torch

        # Ray shows a process only the GPUs that it reserved, so the first of them is its own
        cuda = self._plan.gpus > 0 and torch.cuda.is_available()
        return torch.device("cuda" if cuda else "cpu")
