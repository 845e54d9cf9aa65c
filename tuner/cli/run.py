"""tuner run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import ask
from tuner.cli.printing import print_outcome
from tuner.cli.validate import print_plan, resolve
from tuner.errors import NameTakenError
from tuner.places import LOCAL
from tuner.wording import printable

if TYPE_CHECKING:
    from tuner.spec.experiment import ExperimentSpec

_LARGE_GRID = 10_000  # cells


@click.command(
    cls=options.Command,
    section="Search",
    place=1,
    examples=[
        "tuner run digits",
        "tuner run folder:photos --num-samples 8 --time-budget 2h",
        "tuner run my_search.yaml --search bayesopt --gpus 0.5 --max-concurrent 4",
        "tuner run --command 'python train.py --lr {lr}' search.space.lr='loguniform(1e-4, 1e-1)' "
        "--num-samples 20",
        "tuner run digits --name wide scheduler.max_t=30 search.space.lr='loguniform(1e-5, 1e-1)'",
        "tuner run --like wide --search bohb",
    ],
)
@options.spec
@click.option("--dry-run", is_flag=True, help="Only check, as `tuner validate` does.")
@options.evaluate
@options.yes
@options.wait_for_resources
@options.as_json
def run(
    experiment: str | None,
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

    \b
    EXPERIMENT is one of
      folder:PATH        your images, in a sub-folder for each class; everything else has
                         defaults; torchvision:NAME and hf:NAME likewise
      FILE               a .yaml, .json or .py file with the spec of the search
      NAME               your own experiments/NAME.py, or one that ships: digits, digits_grid,
                         digits_hyperopt, digits_bayesopt, digits_bohb, cifar10_net,
                         cifar10_resnet, cifar10_speednet
      MODULE:FUNCTION    a function of yours that returns the spec

    A script is searched as it is by --command (docs/your_training.md).

    KEY=VALUE sets any key of the spec; `tuner spec` explains them all.
    """
    from tuner.spec.code import refuse_elsewhere

    spec, source = resolve(experiment, assignments, address, flags, yes=yes)
    if dry_run:
        print_plan(spec, source, address, as_json)
        return 0
    refuse_elsewhere(spec.trainable)
    _warn(spec, here=address == LOCAL)
    _confirm_large_grid(spec, confirmed=yes)
    for warning in spec.pin_data():  # before any Ray starts: images may turn out to be unreadable
        click.echo(printable(f"warning: {warning}"), err=True)
    from tuner.cluster import connect as cluster

    with cluster.connect(address, spec=spec):
        cluster.await_room(spec.resources, wait_for_resources)
        while True:
            try:
                results = tuner.run_experiment(spec)
                break
            except NameTakenError:  # by another run, a moment ago: resolved to the next free name
                spec, source = resolve(experiment, assignments, address, flags, yes=True)
    return print_outcome(results, evaluate=evaluate, as_json=as_json)


def _warn(spec: ExperimentSpec, *, here: bool) -> None:
    from tuner.planning.plan import warnings_of

    for warning in warnings_of(spec, here=here):
        click.echo(printable(f"warning: {warning}"), err=True)


def _confirm_large_grid(spec: ExperimentSpec, *, confirmed: bool) -> None:
    """Say how many trials a grid has; a very large one is asked about, since cells multiply."""
    trials = spec.trials
    if spec.search.strategy != "grid" or trials is None:
        return
    click.echo(f"grid: {trials:,} trials", err=True)
    if trials > _LARGE_GRID:
        ask(
            f"run all {trials:,} trials?",
            yes=confirmed,
            unattended=f"a grid of {trials:,} trials asks for confirmation, and there is no "
            "terminal: give --yes, --num-samples, fewer search.points, or --search random",
        )
