"""The context and the assignments that the driver sends to workers, and a worker's environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.places import find_local_experiment
from tuner.spec.sections import Objective, Resources, Timeouts
from tuner.trial.checkpoints import SaveRules

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # which gloo and NCCL read


@dataclass(frozen=True, slots=True)
class TrialContext:
    """The settings that all trials of an experiment share, sent to each worker once.

    location: the experiment's folder, or its URL. trainable: its dotted path. constants: what every
    Learner is built with, `seed` and `epochs` among them. epochs: the length of a complete trial,
    None for a function that ends by itself. resources: of each rank, and the ranks. sys_path: where
    modules are searched. directory: the driver's working directory. saves: when the checkpoints of
    a Learner are written.
    """

    location: str
    trainable: str
    constants: dict[str, Any]
    objective: Objective
    epochs: int | None
    resources: Resources
    timeouts: Timeouts
    sys_path: tuple[str, ...]
    directory: str
    saves: SaveRules = field(default_factory=SaveRules)

    @property
    def threads(self) -> int:
        """The threads of each rank."""
        return max(1, int(self.resources.cpus))

    @property
    def folder(self) -> Path:
        return find_local_experiment(self.location)

    def locate_files(self, trial_id: str) -> Path:
        """The folder for the files that a trial writes beside its checkpoints."""
        return self.folder / "trials" / trial_id / "files"

    def prepare_process(self) -> None:
        """Extend sys.path by the user's folders, and go to where the search was started."""
        sys.path += [entry for entry in self.sys_path if entry not in sys.path]
        if os.path.isdir(self.directory):  # another node may not have it
            os.chdir(self.directory)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One trial, as it travels in Ray's config: its id, its config, and where it continues.

    epoch: the last epoch that is done. checkpoint: {path, sha256} of that epoch's, None at the
    start. reported: the last epoch whose report is journaled. origin: why the config was chosen:
    grid, random, initial, model, warm (a model of an earlier experiment) or asked (by a user, while
    the search ran); None after a resume. seed: the trial's own seed; None for the experiment's.
    earlier: (epoch, metrics) of its reports up to `epoch`.
    """

    trial_id: str
    config: dict[str, Any]
    epoch: int = 0
    checkpoint: dict[str, Any] | None = None
    reported: int = 0
    origin: str | None = None
    seed: int | None = None
    earlier: tuple[tuple[int, dict[str, float]], ...] = ()


def add_trial_seed(values: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """`values` with the trial's `seed`, or unchanged for None."""
    return dict(values) if seed is None else {**values, "seed": seed}


def set_network_interface(address: str) -> None:
    """Make gloo and NCCL use the network interface that has `address`, that of this node.

    By default gloo and NCCL use the host's name or the first interface, over which ranks on other
    nodes may not be reachable. Variables that the user has set stay; nothing is set if no interface
    has that address.
    """
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if address in (each.address.partition("%")[0] for each in addresses):
            for variable, value in build_interface_variables(name).items():
                os.environ.setdefault(variable, value)
            return


def build_interface_variables(name: str) -> dict[str, str]:
    """The environment in which gloo and NCCL use the interface `name`.

    NCCL takes a name without "=" for the beginning of one: eth1 for eth10, too.
    """
    return dict(zip(INTERFACES, (name, f"={name}"), strict=True))
