"""Commands that search: run, resume; and validate, which says what a search would be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.outcome import announce_code, finish, load, print_json
from tuner.errors import NameTakenError, UsageError
from tuner.wording import printable

if TYPE_CHECKING:
    from tuner.spec.experiment import ExperimentSpec

_GRID_TO_CONFIRM = 10_000  # cells


@click.command()
@options.spec
@click.option("--dry-run", is_flag=True, help="Only check: the same as `tuner validate`.")
@options.evaluate
@click.option("--yes", is_flag=True, help="Begin a grid of more than 10,000 trials unasked.")
@options.wait_for_resources
@options.as_json
def run(
    experiment: str,
    assignments: tuple[str, ...],
    dry_run: bool,
    evaluate: bool,
    yes: bool,
    wait_for_resources: float | None,
    as_json: bool,
    address: str,
    **flags: Any,
) -> int:
    """Search for good hyperparameters of EXPERIMENT.

    EXPERIMENT is a name in ./experiments, else one that ships (digits, cifar10_net,
    cifar10_resnet, cifar10_speednet); or module:function; or a .py, .yaml or .json file.
    KEY=VALUE sets any field of its spec: search.space.lr="loguniform(1e-5, 1e-2)",
    scheduler.max_t=30.
    """
    spec, source = _resolve(experiment, assignments, address, flags)
    if dry_run:
        _print_plan(spec, source, address, as_json)
        return 0
    _confirm_grid(spec, confirmed=yes)
    from tuner.cluster import connect as cluster
    from tuner.search.run import run_experiment

    with cluster.connect(address, spec=spec):
        cluster.await_room(spec.resources, wait_for_resources)
        while True:
            try:
                results = run_experiment(spec)
                break
            except NameTakenError:  # a moment ago: the next free name, where none was asked for
                spec, source = _resolve(experiment, assignments, address, flags)
    return finish(results, evaluate=evaluate, as_json=as_json)


@click.command()
@options.spec
@options.as_json
def validate(
    experiment: str, assignments: tuple[str, ...], as_json: bool, address: str, **flags: Any
) -> int:
    """Check EXPERIMENT and show what it comes to; starts nothing.

    With --address the cluster's nodes are asked, too: what fits on which, and whether they share
    the storage.
    """
    spec, source = _resolve(experiment, assignments, address, flags)
    _print_plan(spec, source, address, as_json)
    return 0


@click.command()
@click.argument("name")
@options.address
@options.evaluate
@click.option("--retry-failed", is_flag=True, help="Failed trials go on, too.")
@click.option("--add-samples", type=click.IntRange(min=1), metavar="N", help="More trials.")
@click.option("--time-budget", type=options.Duration(), help="A new one, counted from now.")
@options.wait_for_resources
@options.storage
@options.as_json
def resume(
    name: str,
    address: str,
    wait_for_resources: float | None,
    evaluate: bool,
    retry_failed: bool,
    add_samples: int | None,
    time_budget: float | None,
    storage: str | None,
    as_json: bool,
) -> int:
    """Go on with the interrupted experiment NAME."""
    from tuner.cluster import connect as cluster
    from tuner.places import storage_of
    from tuner.search.resuming import Extension
    from tuner.search.run import resume_experiment
    from tuner.spec.experiment import build_spec

    before = load(name, storage)
    announce_code(before)
    spec = build_spec({**before.spec, "storage": storage_of(before.folder)}, str(before.folder))
    with cluster.connect(address, spec=spec):
        cluster.await_room(spec.resources, wait_for_resources)
        more = Extension(add_samples or 0, time_budget, retry_failed)
        results = resume_experiment(before.folder, more=more)
    return finish(results, evaluate=evaluate, as_json=as_json)


def _resolve(
    experiment: str, assignments: tuple[str, ...], address: str, flags: dict[str, Any]
) -> tuple[ExperimentSpec, str]:
    from tuner.planning.resolve import resolve
    from tuner.planning.validation import Machine

    changes = [*options.assignments_of(flags), *assignments]
    machine = Machine.here() if address == "local" else None
    spec, source = resolve(experiment, changes, strategy=flags["strategy"], machine=machine)
    if spec.warm_start:
        from tuner.search.searchers.warm import given_to

        given = given_to(spec)  # or refused, before anything starts
        for note in given.notes if given else ():
            click.echo(printable(f"warm start: {note}"), err=True)
    return spec, source


def _print_plan(spec: ExperimentSpec, source: str, address: str, as_json: bool) -> None:
    from tuner.cluster import connect as cluster
    from tuner.planning.plan import plan_of
    from tuner.reporting.plan_text import plan_text

    here = address == cluster.LOCAL
    plan = plan_of(spec, here=here)
    if not here:
        with cluster.connect(address, spec=spec):
            plan |= cluster.plan(spec)
    if as_json:
        print_json({"spec": spec.model_dump(mode="json"), **plan})
        return
    click.echo(plan_text(spec, plan, source))


def _confirm_grid(spec: ExperimentSpec, *, confirmed: bool) -> None:
    """Say how many trials a grid has; it multiplies fast, so a very large one is asked about."""
    trials = spec.trials
    if spec.search.strategy != "grid" or trials is None:
        return
    click.echo(f"grid: {trials:,} trials", err=True)
    if trials > _GRID_TO_CONFIRM and not confirmed:
        if not sys.stdin.isatty():
            raise UsageError(
                f"a grid of {trials:,} trials asks for confirmation, and there is no terminal: "
                f"give --yes, --num-samples, fewer search.points, or --search random"
            )
        click.confirm(f"run all {trials:,} trials?", abort=True, err=True)
