"""What a spec comes to: how many trials, what each reserves, how many fit at once."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from tuner.spec import quotas
from tuner.spec.command import Command
from tuner.spec.declaration import declaration_of
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.loading import is_rays_class, load_trainable
from tuner.spec.plain_values import is_number
from tuner.spec.sections import Objective, Resources, usual_mode
from tuner.spec.space.domains import Choice, Space, literal
from tuner.spec.space.spaces import domains_of
from tuner.spec.strategies import GridSettings
from tuner.spec.validation import Machine
from tuner.wording import amount_of, duration, shorten

_NO_GRID = (
    "grid_search of {names} is a choice for --search {strategy}: num_samples={samples} means "
    "{samples} trials in all, where Ray Tune alone would run every value so often, {rays} trials. "
    "For every value once: --search grid."
)
_CONSTANT = (
    "search.space.{name} is {text} in every trial: write choice(...) to search its values, "
    "constant(...) to keep it"
)
_RANGE = re.compile(r"[-+.\de]+(\s*,\s*[-+.\de]+)+")  # text such as "0.1, 1"
_BOUNDS = ({"min", "max"}, {"low", "high"}, {"lower", "upper"})  # of other libraries' domains
_UNUSED = "the command has no {names}: the script finds the value in $TUNER_CONFIG alone"
_OTHER_PYTHON = (
    "the command's {name!r} is {path}, and tuner is installed for {ours}: write that one if the "
    "script needs tuner, or packages that are beside it"
)
_ENDLESS = (
    "scheduler.max_t is not set: a trial of a class of Ray Tune's ends only where step() returns "
    "done=True"
)
_IDLE_GPUS = "trials reserve no GPU: they train on CPUs and leave {idle} idle; --gpus 1 uses {it}"
_GPUS = Path("/proc/driver/nvidia/gpus")  # a folder for each, where NVIDIA's driver is loaded


def plan_of(spec: ExperimentSpec, *, here: bool) -> dict[str, Any]:
    """{trials, epochs_a_trial, a_trial_reserves, notes}, in words if no number is known.

    With {at_once, machine} if it runs `here`, on this machine, and {data} if the Learner declares
    any. notes: settings that work, but perhaps not as intended.
    """
    resources = spec.resources
    plan: dict[str, Any] = {
        "trials": spec.trials or f"as many as {duration(spec.time_budget_s or 0)} allow",
        "epochs_a_trial": spec.epochs or "as many as the function reports",
        "a_trial_reserves": {
            "cpus": 0 if spec.is_elsewhere else resources.cpus * resources.ranks,
            "gpus": resources.gpus * resources.ranks,
        },
    }
    if here and not spec.is_elsewhere:
        machine = Machine.here()
        fits = fit(resources, machine)
        plan["at_once"] = min(fits, spec.max_concurrent or fits)
        plan["machine"] = {
            "cpus": machine.cpus,
            **({"gpus": machine.gpus} if resources.gpus else {}),
        }
    plan["notes"] = warnings_of(spec, here=here)
    if here and quotas.cpu_limit():
        plan["notes"].append(f"of this machine's CPUs {quotas.cpus_in_words()}")
    declaration = declaration_of(spec.trainable)
    if data := declaration.data(spec):
        plan["data"] = data
    plan["notes"] += declaration.notes(spec)
    return plan


def warnings_of(spec: ExperimentSpec, *, here: bool) -> list[str]:
    """Settings that work, but hardly as intended; also shown before a search.

    here: trials run on this machine.
    """
    return [
        *_of_the_objective(spec.objective),
        *_of_grids(spec),
        *_of_constants(spec.search.space),
        *_of_the_trainable(spec),
        *([*_of_idle_gpus(spec), *_of_another_python(spec)] if here else ()),
    ]


def _of_the_trainable(spec: ExperimentSpec) -> Iterator[str]:
    """Hyperparameters that a command does not use, and classes that may never end."""
    if isinstance(spec.trainable, Command):
        names = {name.partition(".")[0] for name in spec.trainable.names}
        unused = [f"{{{name}}}" for name in spec.search.space if name not in names]
        if unused and names:
            yield _UNUSED.format(names=" and no ".join(unused))
        return
    is_custom = not (spec.ships or spec.is_elsewhere)
    if is_custom and spec.epochs is None and is_rays_class(load_trainable(spec.trainable)):
        yield _ENDLESS


def _of_another_python(spec: ExperimentSpec) -> Iterator[str]:
    """A Python outside the virtual environment that tuner runs in."""
    name = spec.trainable.arguments[0] if isinstance(spec.trainable, Command) else ""
    path = shutil.which(name) if Path(name).name.startswith("python") else None
    if path and sys.prefix != sys.base_prefix and not Path(path).is_relative_to(sys.prefix):
        yield _OTHER_PYTHON.format(name=name, path=path, ours=sys.executable)


def _of_the_objective(objective: Objective) -> Iterator[str]:
    if usual_mode(objective.metric) not in (None, objective.mode):
        best = f"{objective.better.removesuffix('r')}st {objective.metric}"
        yield f"objective.mode={objective.mode} takes the trial with the {best} for the best"


def gpus_here() -> int:
    """The number of this machine's NVIDIA GPUs, unless they are hidden. Imports no torch."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return 0 if hidden or not _GPUS.is_dir() else len(list(_GPUS.iterdir()))


def _of_idle_gpus(spec: ExperimentSpec) -> Iterator[str]:
    if spec.resources.gpus or spec.is_elsewhere:
        return
    if count := gpus_here():
        it = "it" if count == 1 else "them"
        yield _IDLE_GPUS.format(idle=amount_of(count, "GPU"), it=it)


def _of_grids(spec: ExperimentSpec) -> Iterator[str]:
    """The effect of `num_samples` on a grid, and on `grid_search` in other strategies."""
    search, samples = spec.search, spec.num_samples
    if isinstance(search, GridSettings) and samples and (left_out := search.whole - samples) > 0:
        which = "its first ones" if search.order == "rows" else "spread over it"
        yield (
            f"num_samples={samples} takes {samples} of the grid's {search.whole:,} trials, "
            f"{which}, and leaves {left_out:,} out."
        )
    if isinstance(search, GridSettings) or samples is None:
        return
    domains = domains_of(search.space)
    written = [(path, len(d.values)) for path, d in domains if isinstance(d, Choice) and d.grid]
    if written:
        names = ", ".join(path for path, _ in written)
        yield _NO_GRID.format(
            names=names,
            strategy=search.strategy,
            samples=samples,
            rays=samples * prod(count for _, count in written),
        )


def _of_constants(space: Space, path: str = "") -> Iterator[str]:
    """Constants outside branches that other libraries take for domains: lists, texts, mappings."""
    for name, value in space.items():
        is_mapping = isinstance(value, Mapping)
        if (
            (isinstance(value, list) and value)
            or (isinstance(value, str) and _RANGE.fullmatch(value))
            or (is_mapping and any(all(is_number(value.get(b)) for b in pair) for pair in _BOUNDS))
        ):
            yield _CONSTANT.format(name=path + name, text=shorten(literal(value), 80))
        elif is_mapping:
            yield from _of_constants(value, f"{path}{name}.")


def fit(resources: Resources, machine: Machine) -> int:
    """How many trials of these resources run side by side on the machine."""
    fits = int(machine.cpus / (resources.cpus * resources.ranks) + 1e-9)
    if resources.gpus >= 1:
        return min(fits, int(machine.gpus / (resources.gpus * resources.ranks)))
    if resources.gpus:  # a share lies on one GPU, never across two
        return min(fits, int(machine.gpus) * int(1 / resources.gpus + 1e-9))
    return fits
