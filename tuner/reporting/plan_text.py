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
        text = f"  {'Note':<12} {note}"
        lines.append(fill(text, 80, subsequent_indent=" " * 15))
    for network in plan.get("networks", ()):
        lines += _format_network(network)
    document = indent(spec.to_yaml().rstrip(), "  ")
    lines += ["", "Its spec", document]
    return "\n".join(lines)


def format_start_banner(spec: ExperimentSpec, trials: int | None) -> str:
    """What begins, in a line: Ray and its workers take some seconds to start."""
    amount = "trials"
    if trials is not None:
        amount = format_amount(trials, "trial")
    within = (
        f" within {format_duration(spec.time_budget_s)}" if spec.time_budget_s else ""
    )
    folder = format_path(spec.folder)
    return f"{spec.name}: {amount}{within}, results in {folder}; starting the workers"


def _format_rows(
    spec: ExperimentSpec,
    plan: Mapping[str, Any],
    source: str,
) -> Iterator[tuple[str, str]]:
    scheduler = spec.scheduler
    length = (
        "as long as it reports"
        if spec.epochs is None
        else format_amount(spec.epochs, "epoch")
    )
    yield "From", source
    search = f"{spec.search.strategy} search"
    if "strategy" not in spec.search.model_fields_set:
        search += " (the default)"
    yield "Trials", f"{plan['trials']}, {search}"
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
    across_nodes = plan.get("across_nodes")
    if across_nodes:
        yield "", f"{across_nodes} whose workers span several nodes"
    if scheduler is None:
        yield "Stopping", "none: every trial runs to its end"
    else:
        yield "Stopping", scheduler.stopping_text()
        first_rung = scheduler.describe_first_rung()
        if first_rung:
            yield "First rung", first_rung
    at_once = plan.get("at_once", spec.max_concurrent)
    if at_once != 1:
        if spec.search.learns:
            yield (
                "Same seed",
                "not always the same winner: timing decides what is learned when",
            )
        elif scheduler and scheduler.rungs():
            yield (
                "Same seed",
                "the same configs, but timing decides which trials are stopped",
            )
    takes = plan.get("takes")
    if takes:
        total = format_duration(takes["total_s"])
        yield "Takes", f"about {total}: an epoch takes {takes['epoch_s']:.2g} s here"
    yield "Results", format_path(spec.folder)
    yield from _format_data(plan.get("data"))
    if scheduler and spec.brackets > 1:
        yield "Brackets", scheduler.describe_brackets(spec.brackets)
    early = list(_describe_early_ends(spec))
    if early:
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
        trials = format_amount(stop.patience_trials, "trial")
        yield f"after {trials} without a better one"
    if stop.patience_s:
        duration = format_duration(stop.patience_s)
        yield f"after {duration} without a better one"
    if stop.utility:
        yield f"when less than {stop.utility:g} more is expected of another hour"
    if stop.patience_epochs:
        epochs = format_amount(stop.patience_epochs, "epoch")
        yield f"a trial after {epochs} without a better one"


def _format_network(network: Mapping[str, Any]) -> list[str]:
    head = (
        "stage",
        "kind",
        "an image's output",
        " parameters",
    )
    rows = [head]
    for stage in network.get("stages", ()):
        row = (
            stage["name"],
            stage["kind"],
            " x ".join(map(str, stage["output"])) or "-",
            f"{stage['parameters']:,}".rjust(11),
        )
        rows.append(row)
    settings = flatten(network.get("settings", {}), ".")
    title = f"{network['model']} {format_config(settings, 60)}"
    lines = ["", title.rstrip()]
    if "images" in network:
        lines.append(
            f"  for images of {network['images']} and {network['classes']} classes"
        )
    if len(rows) > 1:
        table = format_rows(rows)
        lines += [f"  {line}" for line in table]
    parameters = network["parameters"]
    trainable = network.get("trainable", parameters)
    size = f"  {parameters:,} parameters"
    if trainable < parameters:
        size += f", {trainable:,} of them train"
    if "mib" in network:
        size += f", {network['mib']:.3g} MiB"
    lines.append(size)
    unused = network.get("unused")
    if unused:
        lines.append(f"  no gradient reaches {summarize_names(unused)}")
    return [clean_text(line) for line in lines]


def _format_data(data: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if data is None:
        return
    images = data["images"].values()
    counts = " / ".join(f"{count:,}" for count in images)
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
        listed = shorten(", ".join(each), 100)
        yield "Classes", f"{len(classes)}: {listed}"


def _describe_concurrency(spec: ExperimentSpec, plan: Mapping[str, Any]) -> str:
    if spec.is_elsewhere:
        return str(spec.max_concurrent or "as many as ask")
    if "at_once" not in plan:
        return "as many as fit"
    at_once = plan["at_once"]
    if at_once == spec.max_concurrent:
        return f"{at_once}, which is max_concurrent"
    if "nodes" in plan:
        return f"{at_once} on the cluster as it is now"
    devices = format_devices(**plan["machine"])
    return f"{at_once} on this machine's {devices}"
