"""The text of `tuner validate` and `tuner refine`: 80 columns, no colour."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

from tuner.places import shown
from tuner.spec.code import is_by_value, python_argument
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flat
from tuner.spec.space.spaces import space_text
from tuner.wording import (
    aligned,
    amount_of,
    config_line,
    devices,
    duration,
    printable,
    program,
    shorten,
    some_of,
)

if TYPE_CHECKING:
    from tuner.experiment.results.refinement import Refinement


def plan_text(spec: ExperimentSpec, plan: Mapping[str, Any], source: str) -> str:
    """The plan of `tuner.spec.plan.plan_of` in lines, then the resolved spec as YAML."""
    lines = [f"{spec.name} would run"]
    lines += [f"  {name:<12} {printable(text)}" for name, text in _rows(spec, plan, source)]
    for note in plan["notes"]:
        lines.append(fill(f"  {'Note':<12} {note}", 80, subsequent_indent=" " * 15))
    for network in plan.get("networks", ()):
        lines += _network(network)
    return "\n".join([*lines, "", "Its spec", indent(spec.to_yaml().rstrip(), "  ")])


def begin_text(spec: ExperimentSpec) -> str:
    """What begins, in a line: Ray and its workers take some seconds to start."""
    trials = "trials" if spec.trials is None else amount_of(spec.trials, "trial")
    within = f" within {duration(spec.time_budget_s)}" if spec.time_budget_s else ""
    return f"{spec.name}: {trials}{within}, results in {shown(spec.folder)}; starting the workers"


def _rows(spec: ExperimentSpec, plan: Mapping[str, Any], source: str) -> Iterator[tuple[str, str]]:
    length = "as long as it reports" if spec.epochs is None else amount_of(spec.epochs, "epoch")
    yield "From", source
    whose = "" if "strategy" in spec.search.model_fields_set else " (the default)"
    yield "Trials", f"{plan['trials']}, {spec.search.strategy} search{whose}"
    goals = [f"{goal.metric}, the {goal.better} the better" for goal in spec.objective.goals]
    yield "Objective", "; ".join(goals)
    yield "Each trial", length if spec.is_elsewhere else f"{length}, {spec.resources.text}"
    yield "At once", _at_once(spec, plan)
    for node in plan.get("nodes", ()):
        has = devices(node["cpus"], node["gpus"])
        yield "", f"{node['trials']} on {node['address']} with {has}"
    if plan.get("across_nodes"):
        yield "", f"{plan['across_nodes']} whose workers span several nodes"
    if spec.scheduler is None:
        yield "Stopping", "none: every trial runs to its end"
    else:
        yield "Stopping", spec.scheduler.stopping_text()
        if first_rung := spec.scheduler.settled_text():
            yield "First rung", first_rung
    if plan.get("at_once", spec.max_concurrent) != 1:
        if spec.search.learns:
            yield "Same seed", "not always the same winner: timing decides what is learned when"
        elif spec.scheduler and spec.scheduler.rungs():
            yield "Same seed", "the same configs, but timing decides which trials are stopped"
    if takes := plan.get("takes"):
        total = duration(takes["total_s"])
        yield "Takes", f"about {total}: an epoch takes {takes['epoch_s']:.2g} s here"
    yield "Results", shown(spec.folder)
    yield from _data(plan.get("data"))
    if spec.scheduler and spec.brackets > 1:
        yield "Brackets", spec.scheduler.brackets_text(spec.brackets)
    if early := list(_early(spec)):
        yield "Ends early", "; ".join(early)
    if spec.log:
        yield "Log", f"TensorBoard, {', '.join(spec.log)}"
    if spec.time_budget_s:
        yield "Time budget", duration(spec.time_budget_s)


def _early(spec: ExperimentSpec) -> Iterator[str]:
    stop = spec.stop
    metric = spec.objective.metric
    if stop.target is not None:
        yield f"at {metric} {stop.target:g}"
    if stop.patience_trials:
        yield f"after {amount_of(stop.patience_trials, 'trial')} without a better one"
    if stop.patience_s:
        yield f"after {duration(stop.patience_s)} without a better one"
    if stop.utility:
        yield f"when less than {stop.utility:g} more is expected of another hour"
    if stop.patience_epochs:
        yield f"a trial after {amount_of(stop.patience_epochs, 'epoch')} without a better one"


def _network(network: Mapping[str, Any]) -> list[str]:
    rows = [("stage", "kind", "an image's output", " parameters")]
    for stage in network.get("stages", ()):
        output = " x ".join(map(str, stage["output"])) or "-"
        rows.append((stage["name"], stage["kind"], output, f"{stage['parameters']:,}".rjust(11)))
    settings = config_line(flat(network.get("settings", {}), "."), 60)
    lines = ["", f"{network['model']} {settings}".rstrip()]
    if "images" in network:
        lines.append(f"  for images of {network['images']} and {network['classes']} classes")
    if len(rows) > 1:
        lines += [f"  {line}" for line in aligned(rows)]
    parameters = f"  {network['parameters']:,} parameters"
    if (trainable := network.get("trainable", network["parameters"])) < network["parameters"]:
        parameters += f", {trainable:,} of them train"
    lines.append(parameters + (f", {network['mib']:.3g} MiB" if "mib" in network else ""))
    if unused := network.get("unused"):
        lines.append(f"  no gradient reaches {some_of(unused)}")
    return [printable(line) for line in lines]


def refinement_text(refinement: Refinement, path: Path, before: Mapping[str, Any]) -> str:
    """Each domain beside what it was `before`; the path and the command last."""
    rows = []
    for name, value in space_text(refinement.spec.search.space).items():
        was = "" if value == before.get(name) else f"  (was {shorten(str(before[name]), 100)})"
        rows.append((f"  {printable(name)}", shorten(str(value), 100) + was))
    command = f"Run it with: {_run(refinement.spec, path)}"
    return "\n".join([refinement.note, *aligned(rows), f"Written to {path}", command])


def refinement_json(refinement: Refinement, path: Path) -> dict[str, Any]:
    """{path, command, trials, leading, space}; leading: the ids of the trials it goes by."""
    return {
        "path": str(path),
        "command": _run(refinement.spec, path),
        "trials": refinement.spec.trials,
        "leading": [trial.trial_id for trial in refinement.leading],
        "space": space_text(refinement.spec.search.space),
    }


def _run(spec: ExperimentSpec, path: Path) -> str:
    """The command or the Python call that runs the spec in the file at `path`."""
    read = f"tuner.ExperimentSpec.from_text(open({printable(repr(str(path)))}).read())"
    if spec.is_elsewhere:
        return f"tuner.AskTell({read})"
    if is_by_value(spec.trainable):
        return f"tuner.run_experiment({read}.replace({printable(python_argument(spec.trainable))}))"
    return f"{program()} run {shlex.quote(str(path))}"


def _data(data: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if data is None:
        return
    counts = " / ".join(f"{count:,}" for count in data["images"].values())
    shape = "x".join(map(str, data["shape"]))
    classes = data["classes"]
    yield "Data", data["title"]
    yield "", f"{counts} of {shape} to train, validate and test"
    if "bits" in data:
        yield "", f"{data['bits']} bits of a channel are scaled to 8 (training.image_bits)"
    if isinstance(classes, int):
        yield "Classes", str(classes)
    else:
        each = (f"{name} {count:,}" for name, count in classes.items())
        yield "Classes", f"{len(classes)}: {shorten(', '.join(each), 100)}"


def _at_once(spec: ExperimentSpec, plan: Mapping[str, Any]) -> str:
    if spec.is_elsewhere:
        return str(spec.max_concurrent or "as many as ask")
    if "at_once" not in plan:
        return "as many as fit"
    if plan["at_once"] == spec.max_concurrent:
        return f"{plan['at_once']}, which is max_concurrent"
    if "nodes" in plan:
        return f"{plan['at_once']} on the cluster as it is now"
    return f"{plan['at_once']} on this machine's {devices(**plan['machine'])}"
