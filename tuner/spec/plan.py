"""What a spec comes to: how many trials, what each reserves, how many fit at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from tuner.spec.command import Command
from tuner.spec.declaration import PinnedData, load_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective, Resources, infer_mode
from tuner.spec.space.domains import Choice, Space, format_literal
from tuner.spec.space.spaces import list_domains, walk
from tuner.spec.strategies import GridSettings
from tuner.spec.validation import Machine
from tuner.wording import format_amount, format_duration, shorten

# A folder for each, where NVIDIA's driver is loaded
_GPUS = Path("/proc/driver/nvidia/gpus")


def describe_plan(
    spec: ExperimentSpec,
    *,
    here: bool,
    machine: Machine | None = None,
    skipped: int = 0,
    data: PinnedData | None = None,
) -> dict[str, Any]:
    """{trials, epochs_a_trial, a_trial_reserves, notes}, with {at_once, machine} if it runs `here`,
    {data} if declared, and {takes: {epoch_s, total_s}} if the Learner can tell. Unknown numbers are
    words. skipped: configs that a warm start leaves out. data: what is pinned.
    """
    resources = spec.resources
    trials = spec.count_trials(skipped)
    plan: dict[str, Any] = {
        "trials": trials
        or f"as many as {format_duration(spec.time_budget_s or 0)} allow",
        "epochs_a_trial": spec.epochs or "as many as the function reports",
        "a_trial_reserves": {
            "cpus": 0 if spec.is_elsewhere else resources.cpus * resources.ranks,
            "gpus": resources.gpus * resources.ranks,
        },
    }
    if here and not spec.is_elsewhere:
        machine = machine or Machine.detect()
        fits = count_fitting_trials(resources, machine)
        plan["at_once"] = min(fits, spec.max_concurrent or fits)
        plan["machine"] = {
            "cpus": machine.cpus,
            **({"gpus": machine.gpus} if resources.gpus else {}),
        }
    plan["notes"] = list_warnings(spec, here=here)
    declaration = load_declaration(spec.trainable)
    trained = data.apply(spec) if data else spec
    if shown := declaration.data(trained):
        plan["data"] = shown
    plan["notes"] += declaration.notes(spec)
    if (
        plan.get("at_once")
        and trials
        and (epoch_s := declaration.measure_epoch_s(trained))
    ):
        epochs = trials * _estimate_epochs(spec)
        plan["takes"] = {
            "epoch_s": epoch_s,
            "total_s": epoch_s * epochs / plan["at_once"],
        }
    return plan


def _estimate_epochs(spec: ExperimentSpec) -> float:
    scheduler = spec.scheduler
    length = float(spec.epochs or 1)
    expected = scheduler.estimate_epochs(spec.brackets) if scheduler else None
    return length if expected is None else min(expected, length)


def list_warnings(spec: ExperimentSpec, *, here: bool) -> list[str]:
    """Settings that work, but hardly as intended. here: trials run on this machine."""
    return [
        *_check_mode(spec.objective),
        *_check_grids(spec),
        *_check_lists(spec.search.space),
        *_check_command(spec),
        *(_check_idle_gpus(spec) if here else ()),
    ]


def _check_mode(objective: Objective) -> Iterator[str]:
    if infer_mode(objective.metric) not in (None, objective.mode):
        best = f"{objective.better.removesuffix('r')}st {objective.metric}"
        yield f"objective.mode={objective.mode} takes the trial with the {best} for the best"


def _check_grids(spec: ExperimentSpec) -> Iterator[str]:
    """The effect of `num_samples` on a grid, and on `grid_search` in other strategies."""
    search = spec.search
    samples = spec.num_samples
    if samples is None:
        return
    if isinstance(search, GridSettings):
        if (left_out := search.all_trials - samples) > 0:
            which = "its first ones" if search.order == "rows" else "spread over it"
            trials = f"{samples} of the grid's {search.all_trials:,} trials, {which}"
            yield f"num_samples={samples} takes {trials}, and leaves {left_out:,} out."
        return
    choices = (
        (path, d) for path, d in list_domains(search.space) if isinstance(d, Choice)
    )
    grids = {path: choice for path, choice in choices if choice.name == "grid_search"}
    if grids:
        rays = samples * prod(len(domain.values) for domain in grids.values())
        yield (
            f"grid_search of {', '.join(grids)} is a choice for --search {search.strategy}: "
            f"num_samples={samples} means {samples} trials in all, where Ray Tune alone would run "
            f"every value so often, {rays} trials. For every value once: --search grid."
        )


def _check_lists(space: Space) -> Iterator[str]:
    """Lists outside of domains, which other libraries take for choices."""
    for position, value in walk(space):
        if isinstance(value, list) and value:
            text = shorten(format_literal(value), 80)
            yield (
                f"search.space.{position.path} is {text} in every trial: write choice(...) to "
                "search its values, constant(...) to keep it"
            )


def _check_command(spec: ExperimentSpec) -> Iterator[str]:
    """Hyperparameters that a command with placeholders does not use."""
    if not isinstance(spec.trainable, Command):
        return
    used = {name.partition(".")[0] for name in spec.trainable.names}
    unused = [f"{{{name}}}" for name in spec.search.space if name not in used]
    if unused and used:
        names = " and no ".join(unused)
        yield f"the command has no {names}: the script finds the value in $TUNER_CONFIG alone"


def count_local_gpus(driver: Path = _GPUS) -> int:
    """The number of this machine's NVIDIA GPUs, unless they are hidden. Imports no torch."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return 0 if hidden or not driver.is_dir() else len(list(driver.iterdir()))


def _check_idle_gpus(spec: ExperimentSpec) -> Iterator[str]:
    if spec.resources.gpus or spec.is_elsewhere:
        return
    if count := count_local_gpus():
        idle = format_amount(count, "GPU")
        it = "it" if count == 1 else "them"
        yield (
            f"trials reserve no GPU: they train on CPUs and leave {idle} idle; --gpus 1 uses {it}"
        )


def count_fitting_trials(resources: Resources, machine: Machine) -> int:
    fits = int(machine.cpus / (resources.cpus * resources.ranks) + 1e-9)
    if resources.gpus >= 1:
        return min(fits, int(machine.gpus / (resources.gpus * resources.ranks)))
    if resources.gpus:  # a share lies on one GPU, never across two
        return min(fits, int(machine.gpus) * int(1 / resources.gpus + 1e-9))
    return fits
