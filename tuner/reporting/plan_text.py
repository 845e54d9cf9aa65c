"""What `tuner validate` says of a spec that would run: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill, indent
from typing import Any

from tuner.places import shown
from tuner.spec.experiment import ExperimentSpec, Resources
from tuner.wording import amount_of, duration, printable

_NO_SCHEDULER = "none: every trial runs to its end"


def plan_text(spec: ExperimentSpec, plan: Mapping[str, Any], source: str) -> str:
    """The plan of `tuner.planning.plan.plan_of` in lines, then the resolved spec as YAML."""
    lines = {
        "From": source,
        "Trials": f"{plan['trials']}, {spec.search.strategy} search",
        "Each trial": f"{_length(spec)}, {reserves(spec.resources)}",
        "At once": _at_once(spec, plan),
        "Stopping": spec.scheduler.stopping_text() if spec.scheduler else _NO_SCHEDULER,
        "Results": shown(spec.folder),
    }
    if spec.scheduler and spec.brackets > 1:
        lines["Brackets"] = spec.scheduler.brackets_text(spec.brackets)
    if spec.log:
        lines["Log"] = f"TensorBoard, {', '.join(spec.log)}"
    if spec.time_budget_s:
        lines["Time budget"] = duration(spec.time_budget_s)
    told = [f"  {name:<12} {printable(text)}" for name, text in lines.items()]
    at = list(lines).index("At once") + 1
    told[at:at] = [f"{'':15}{text}" for text in _nodes(plan)]
    told += [_note(text) for text in plan["notes"]]
    yaml = indent(spec.to_yaml().rstrip(), "  ")
    return "\n".join([f"{spec.name} would run", *told, "", "Its spec", yaml])


def _note(text: str) -> str:
    return fill(text, 80, initial_indent=f"  {'Note':<12} ", subsequent_indent=" " * 15)


def _length(spec: ExperimentSpec) -> str:
    return "as long as it reports" if spec.epochs is None else amount_of(spec.epochs, "epoch")


def reserves(resources: Resources) -> str:
    """What one trial reserves, in words."""
    each = amount_of(resources.cpus, "CPU")
    if resources.gpus:
        each += f" and {amount_of(resources.gpus, 'GPU')}"
    return each if resources.ranks == 1 else f"{resources.ranks_text} of {each}"


def _at_once(spec: ExperimentSpec, plan: Mapping[str, Any]) -> str:
    if "at_once" not in plan:
        return "as many as fit"
    if plan["at_once"] == spec.max_concurrent:
        return f"{plan['at_once']}, which is max_concurrent"
    if "nodes" in plan:
        return f"{plan['at_once']} on the cluster as it is now"
    return f"{plan['at_once']} on this machine's {_has(plan['machine'])}"


def _has(what: Mapping[str, float]) -> str:
    return " and ".join(amount_of(count, name.upper()[:-1]) for name, count in what.items())


def _nodes(plan: Mapping[str, Any]) -> Iterator[str]:
    """How many trials fit on which nodes, a line each; of a plan that names none, nothing."""
    for node in plan.get("nodes", ()):
        has = {name: node[name] for name in ("cpus", "gpus") if node[name]}
        yield f"{node['trials']} on {node['address']} with {_has(has)}"
    if plan.get("across_nodes"):
        yield f"{plan['across_nodes']} whose workers lie on several nodes"
