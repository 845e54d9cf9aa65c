"""tuner validate and tuner spec, and how a command line becomes a spec."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.consent import admit
from tuner.cli.printing import json_text
from tuner.errors import UsageError
from tuner.places import LOCAL
from tuner.wording import printable

if TYPE_CHECKING:
    from tuner.spec.validation import ValidatedSpec


@click.command(
    cls=options.Command,
    section="Search",
    order=2,
    examples=[
        "tuner validate folder:photos",
        "tuner validate my_search.yaml --search grid search.points=5",
        "tuner validate digits --summary training.model=resnet20",
    ],
)
@options.spec
@click.option(
    "--summary", is_flag=True, help="Also show the networks, layer by layer; takes seconds."
)
@options.trust
@options.as_json
def validate(
    experiment: str | None,
    assignments: tuple[str, ...],
    summary: bool,
    trust: bool,
    as_json: bool,
    address: str,
    **flags: Any,
) -> int:
    """Check EXPERIMENT and show what would run; starts nothing.

    Your own images are decoded, which the search does not repeat, and networks that begin with
    weights or freeze layers are built.

    EXPERIMENT and KEY=VALUE are those of `tuner run`. With --address it also asks the nodes of
    the cluster what fits on which, and whether they share the storage.
    """
    spec, source = resolve(experiment, assignments, address, flags, trust=trust)
    print_plan(spec, source, address, as_json, summary=summary)
    return 0


def resolve(
    experiment: str | None,
    assignments: tuple[str, ...],
    address: str,
    flags: dict[str, Any],
    *,
    trust: bool,
) -> tuple[ValidatedSpec, str]:
    """The validated spec and where it comes from; says what a warm start leaves out.

    trust: import the code that a recorded experiment names without a question.
    """
    from tuner.experiment.resolve import resolve as resolve_spec
    from tuner.spec.validation import Machine

    source, implied, assignments = _source(experiment, assignments, flags)
    changes = [*implied, *options.assignments_of(flags), *assignments]
    machine = Machine.here() if address == LOCAL else None
    spec, source = resolve_spec(
        source,
        changes,
        command=flags["command"],
        strategy=flags["strategy"],
        scheduler=flags["scheduler"],
        machine=machine,
        admit=partial(admit, trust=trust),
    )
    if spec.warm_start:
        from tuner.search.warm_start import leave_out_tried, warm_start_of

        warm = warm_start_of(spec)  # raises if it cannot work, before anything starts
        for note in warm.notes if warm else ():
            click.echo(printable(f"warm start: {note}"), err=True)
        leave_out_tried(spec, warm)
    return spec, source


def _source(
    experiment: str | None, assignments: tuple[str, ...], flags: dict[str, Any]
) -> tuple[str | None, list[str], tuple[str, ...]]:
    """The experiment to read, what --like implies, and the KEY=VALUEs, which may begin earlier.

    None: there is a command in place of an experiment.
    """
    like = flags.get("like")
    if like is None:
        has_command = flags["command"] is not None
        if experiment is None and not has_command:
            raise UsageError("give EXPERIMENT, --command TEXT or --like NAME")
        if has_command and experiment is not None and "=" in experiment:
            return None, [], (experiment, *assignments)
        return experiment, [], assignments
    given = () if experiment is None else (experiment,)
    if experiment is not None and "=" not in experiment:
        raise UsageError(
            f"give EXPERIMENT or --like NAME, not both, got {experiment!r} and {like!r}"
        )
    from tuner.experiment.files import EXPERIMENT
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.storage import find_experiment

    folder = find_experiment(like, flags["storage"])
    files = ExperimentFolder(folder)
    files.refresh()
    given = (*given, *assignments)
    implied = [f"warm_start={json.dumps(like)}", *_without_target(files.document()["spec"], given)]
    return str(folder / EXPERIMENT), implied, given


def _without_target(spec: Mapping[str, Any], assignments: tuple[str, ...]) -> list[str]:
    """What unsets the target of an earlier search where the objective becomes another one."""
    from tuner.experiment.results.rows import value_at

    target = value_at(spec, "stop.target")
    changed = {text.partition("=")[0].partition(".")[0] for text in assignments}
    if target is None or "objective" not in changed or "stop" in changed:
        return []
    click.echo(f"stop.target={target} was for the earlier objective and is left out", err=True)
    return ["stop.target=null"]


def print_plan(
    spec: ValidatedSpec, source: str, address: str, as_json: bool, *, summary: bool = False
) -> None:
    """Print what `spec` comes to: its trials, and what each reserves, here or on a cluster.

    Images are decoded, as a search does before it starts, unless that may take a download.
    summary: also what its networks consist of.
    """
    from tuner.reporting.plan_text import plan_text
    from tuner.spec.plan import plan_of

    here = address == LOCAL
    spec.pin_data(download=False)
    plan = plan_of(spec, here=here)
    if summary:
        plan["networks"] = spec.declaration.summaries(spec)
    if not here:
        from tuner.cluster import connect as cluster

        with cluster.connect(address, spec=spec):
            plan |= cluster.plan(spec)
    shown = {"spec": spec.model_dump(mode="json"), **plan}
    click.echo(json_text(shown) if as_json else plan_text(spec, plan, source))


@click.command(
    cls=options.Command,
    section="Search",
    order=6,
    examples=["tuner spec search.space", "tuner spec max_t"],
)
@click.argument("key", required=False)
def spec(key: str | None) -> int:
    """Explain every key that a spec may have, in Markdown.

    KEY is a section, such as search.space, or a single key, such as scheduler.max_t.
    """
    from tuner.reporting.reference import part, reference

    click.echo(reference() if key is None else part(key))
    return 0
