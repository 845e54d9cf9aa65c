"""The text of `tuner validate`: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill, indent
from typing import Any

from tuner.places import format_path
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flatten
from tuner.wording import (
    clean_text,
    format_amount,
    format_config,
    format_devices,
    format_duration,
    format_rows,
    shorten,
    summarize_names,
)


def format_plan(spec: ExperimentSpec, plan: Mapping[str, Any], source: str) -> str:
    """The plan of `tuner.spec.plan.describe_plan` in lines, then the resolved spec as YAML."""
    lines = [f"{spec.name} would run"]
    lines += [
        f"  {name:<12} {clean_text(text)}"
        for name, text in _format_rows(spec, plan, source)
    ]
    for note in plan["notes"]:
        lines.append(fill(f"  {'Note':<12} {note}", 80, subsequent_indent=" " * 15))
    for network in plan.get("networks", ()):
        lines += _format_network(network)
    return "\n".join([*lines, "", "Its spec", indent(spec.to_yaml().rstrip(), "  ")])


def format_start_banner(spec: ExperimentSpec, trials: int | None) -> str:
    """What begins, in a line: Ray and its workers take some seconds to start."""
    amount = "trials" if trials is None else format_amount(trials, "trial")
    within = (
        f" within {format_duration(spec.time_budget_s)}" if spec.time_budget_s else ""
    )
    folder = format_path(spec.folder)
    return f"{spec.name}: {amount}{within}, results in {folder}; starting the workers"


def _format_rows(
    spec: ExperimentSpec, plan: Mapping[str, Any], source: str
) -> Iterator[tuple[str, str]]:
    length = (
        "as long as it reports"
        if spec.epochs is None
        else format_amount(spec.epochs, "epoch")
    )
    yield "From", source
    whose = "" if "strategy" in spec.search.model_fields_set else " (the default)"
    yield "Trials", f"{plan['trials']}, {spec.search.strategy} search{whose}"
    goals = [
        f"{goal.metric}, the {goal.better} the better" for goal in spec.objective.goals
    ]
    yield "Objective", "; ".join(goals)
    yield (
        "Each trial",
        length if spec.is_elsewhere else f"{length}, {spec.resources.text}",
    )
    yield "At once", _describe_concurrency(spec, plan)
    for node in plan.get("nodes", ()):
        has = format_devices(node["cpus"], node["gpus"])
        yield "", f"{node['trials']} on {node['address']} with {has}"
    if plan.get("across_nodes"):
        yield "", f"{plan['across_nodes']} whose workers span several nodes"
    if spec.scheduler is None:
        yield "Stopping", "none: every trial runs to its end"
    else:
        yield "Stopping", spec.scheduler.stopping_text()
        if first_rung := spec.scheduler.describe_first_rung():
            yield "First rung", first_rung
    if plan.get("at_once", spec.max_concurrent) != 1:
        if spec.search.learns:
            yield (
                "Same seed",
                "not always the same winner: timing decides what is learned when",
            )
        elif spec.scheduler and spec.scheduler.rungs():
            yield (
                "Same seed",
                "the same configs, but timing decides which trials are stopped",
            )
    if takes := plan.get("takes"):
        total = format_duration(takes["total_s"])
        yield "Takes", f"about {total}: an epoch takes {takes['epoch_s']:.2g} s here"
    yield "Results", format_path(spec.folder)
    yield from _format_data(plan.get("data"))
    if spec.scheduler and spec.brackets > 1:
        yield "Brackets", spec.scheduler.describe_brackets(spec.brackets)
    if early := list(_describe_early_ends(spec)):
        yield "Ends early", "; ".join(early)
    if spec.log:
        yield "Log", f"TensorBoard, {', '.join(spec.log)}"
    if spec.time_budget_s:
        yield "Time budget", format_duration(spec.time_budget_s)


def _describe_early_ends(spec: ExperimentSpec) -> Iterator[str]:
    stop = spec.stop
    metric = spec.objective.metric
    if stop.target is not None:
        yield f"at {metric} {stop.target:g}"
    if stop.patience_trials:
        yield f"after {format_amount(stop.patience_trials, 'trial')} without a better one"
    if stop.patience_s:
        yield f"after {format_duration(stop.patience_s)} without a better one"
    if stop.utility:
        yield f"when less than {stop.utility:g} more is expected of another hour"
    if stop.patience_epochs:
        yield f"a trial after {format_amount(stop.patience_epochs, 'epoch')} without a better one"


def _format_network(network: Mapping[str, Any]) -> list[str]:
    rows = [("stage", "kind", "an image's output", " parameters")]
    for stage in network.get("stages", ()):
        output = " x ".join(map(str, stage["output"])) or "-"
        rows.append(
            (stage["name"], stage["kind"], output, f"{stage['parameters']:,}".rjust(11))
        )
    settings = format_config(flatten(network.get("settings", {}), "."), 60)
    lines = ["", f"{network['model']} {settings}".rstrip()]
    if "images" in network:
        lines.append(
            f"  for images of {network['images']} and {network['classes']} classes"
        )
    if len(rows) > 1:
        lines += [f"  {line}" for line in format_rows(rows)]
    parameters = f"  {network['parameters']:,} parameters"
    if (trainable := network.get("trainable", network["parameters"])) < network[
        "parameters"
    ]:
        parameters += f", {trainable:,} of them train"
    lines.append(
        parameters + (f", {network['mib']:.3g} MiB" if "mib" in network else "")
    )
    if unused := network.get("unused"):
        lines.append(f"  no gradient reaches {summarize_names(unused)}")
    return [clean_text(line) for line in lines]


def _format_data(data: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if data is None:
        return
    counts = " / ".join(f"{count:,}" for count in data["images"].values())
    shape = "x".join(map(str, data["shape"]))
    classes = data["classes"]
    yield "Data", data["title"]
    yield "", f"{counts} of {shape} to train, validate and test"
    if "bits" in data:
        yield (
            "",
            f"{data['bits']} bits of a channel are scaled to 8 (training.image_bits)",
        )
    if isinstance(classes, int):
        yield "Classes", str(classes)
    else:
        each = (f"{name} {count:,}" for name, count in classes.items())
        yield "Classes", f"{len(classes)}: {shorten(', '.join(each), 100)}"


def _describe_concurrency(spec: ExperimentSpec, plan: Mapping[str, Any]) -> str:
    if spec.is_elsewhere:
        return str(spec.max_concurrent or "as many as ask")
    if "at_once" not in plan:
        return "as many as fit"
    if plan["at_once"] == spec.max_concurrent:
        return f"{plan['at_once']}, which is max_concurrent"
    if "nodes" in plan:
        return f"{plan['at_once']} on the cluster as it is now"
    return f"{plan['at_once']} on this machine's {format_devices(**plan['machine'])}"
