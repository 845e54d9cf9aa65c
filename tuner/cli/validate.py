"""The commands validate, spec and doctor, and how a command line becomes a spec."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.consent import admit
from tuner.cli.printing import format_json
from tuner.cluster import LOCAL
from tuner.errors import UsageError
from tuner.wording import clean_text

if TYPE_CHECKING:
    from tuner.search.preparation import Plan


@options.command(
    "Search",
    2,
    "tuner validate folder:photos",
    "tuner validate my_search.yaml --search grid search.points=5",
    "tuner validate digits --summary training.model=resnet20",
)
@options.spec
@click.option(
    "--summary",
    is_flag=True,
    help="Also show the networks, layer by layer; takes seconds.",
)
@options.trust
@options.as_json
def validate(summary: bool, trust: bool, as_json: bool, **flags: Any) -> None:
    """Check EXPERIMENT and show what would run; starts nothing.

    Your own images are decoded, which the search does not repeat, and networks that begin with
    weights or freeze layers are built.

    EXPERIMENT and KEY=VALUE are those of `tuner run`. With --address it also asks the nodes of
    the cluster what fits on which, and whether they share the storage.
    """
    plan, source = prepare_search(flags, trust=trust)
    print_plan(plan, source, flags["address"], as_json, summary=summary)


def prepare_search(flags: dict[str, Any], *, trust: bool) -> tuple[Plan, str]:
    """The plan of a new search and where it comes from; says what a warm start leaves out.

    flags: the arguments of `options.spec`. trust: import the code that a recorded experiment names
    without a question.
    """
    from tuner.experiment.files import EXPERIMENT
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.resolve import resolve
    from tuner.experiment.storage import find_experiment
    from tuner.search.preparation import prepare
    from tuner.spec.validation import Machine

    experiment, assignments = split_arguments(flags)
    if like := flags["like"]:
        folder = ExperimentFolder(find_experiment(like, flags["storage"]))
        folder.refresh()
        experiment = str(folder.path / EXPERIMENT)
        flags = {**flags, "from": flags["from"] or (like,)}
    if experiment is None and flags["command"] is None:
        raise UsageError("give EXPERIMENT, --command TEXT or --like NAME")
    resolved = resolve(
        experiment,
        [*options.list_assignments(flags), *assignments],
        command=flags["command"],
        admit=partial(admit, trust=trust),
    )
    machine = Machine.detect() if flags["address"] == LOCAL else None
    plan = prepare(resolved.raw, source=resolved.title, machine=machine, is_new=True)
    for note in plan.warm_start.notes if plan.warm_start else ():
        click.echo(clean_text(f"warm start: {note}"), err=True)
    return plan, resolved.source


def split_arguments(flags: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """EXPERIMENT or None, and all KEY=VALUEs: the first argument may be one beside other sources.

    Raises UsageError for an EXPERIMENT beside --like or --resume.
    """
    experiment = flags["experiment"]
    assignments = flags["assignments"]
    earlier = flags["like"] or flags.get("resume")
    if experiment is None or not (earlier or flags["command"]):
        return experiment, assignments
    if "=" in experiment:
        return None, (experiment, *assignments)
    if earlier:
        raise UsageError(
            f"give EXPERIMENT or an earlier NAME, got {experiment!r} and {earlier!r}"
        )
    return experiment, assignments


def print_plan(
    plan: Plan, source: str, address: str, as_json: bool, *, summary: bool = False
) -> None:
    """Print what a plan comes to: its trials, and what each reserves, here or on a cluster.

    Images are decoded, as a search does before it starts, unless that may take a download.
    summary: also what its networks consist of.
    """
    from tuner.reporting.plan_text import format_plan
    from tuner.spec.plan import describe_plan

    here = address == LOCAL
    spec = plan.spec
    plan = plan.pin_data(download=False)
    described = describe_plan(spec, here=here, skipped=plan.skipped, data=plan.data)
    described["notes"] += plan.data.doubts if plan.data else ()
    if summary:
        described["networks"] = plan.declaration.summaries(spec)
    if not here:
        from tuner.cluster import connect as cluster

        with cluster.connect(address, spec=spec):
            described |= cluster.describe_plan(spec)
    shown = {"spec": spec.model_dump(mode="json"), **described}
    click.echo(format_json(shown) if as_json else format_plan(spec, described, source))


@options.command("Search", 6, "tuner spec search.space", "tuner spec max_t")
@click.argument("key", required=False)
def spec(key: str | None) -> None:
    """Explain every key that a spec may have, in Markdown.

    KEY is a section, such as search.space, or a single key, such as scheduler.max_t.
    """
    from tuner.reporting.reference import find_section, render_reference

    click.echo(render_reference() if key is None else find_section(key))


@options.command(
    "Search",
    5,
    "tuner doctor",
    "tuner doctor --address HEAD:6379 --storage /shared/results",
)
@options.storage
@click.option(
    "--address",
    metavar="auto|HOST:PORT",
    help="Also check each node of this Ray cluster.",
)
@options.as_json
def doctor(storage: str | None, address: str | None, as_json: bool) -> int:
    """Check this machine for what would break a search.

    It looks at versions, memory, disk, GPUs and the storage. Exit code 1 says that something has to
    be mended.
    """
    from tuner.reporting.doctor import check_setup

    findings = check_setup(storage, address)
    broken = any(finding.level == "broken" for finding in findings)
    if as_json:
        plain = [asdict(finding) for finding in findings]
        click.echo(format_json({"ok": not broken, "findings": plain}))
    else:
        from tuner.reporting.doctor import format_findings

        click.echo(format_findings(findings))
    return int(broken)
