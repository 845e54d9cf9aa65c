"""The command line: parses, calls, prints. Data goes to stdout, all else to stderr.

Everything heavy is imported by the command that needs it, so that `--help` is instant.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tuner import options
from tuner.errors import NameTakenError, NoUsableTrialError, TunerError, UsageError

if TYPE_CHECKING:
    from tuner.confirmation import Confirmation
    from tuner.results import Results
    from tuner.spec import ExperimentSpec

SOME_FAILED = 3

_GRID_TO_CONFIRM = 10_000  # cells


class _InOrder(click.Group):
    """Lists its commands as they are declared: first what a newcomer needs first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="tuner")
def cli() -> None:
    """Hyperparameter search for PyTorch image classifiers.

    Start with: tuner run digits
    """


@cli.command()
@options.spec
@click.option("--dry-run", is_flag=True, help="Only check: the same as `tuner validate`.")
@options.evaluate
@click.option("--yes", is_flag=True, help="Begin a grid of more than 10,000 trials unasked.")
@options.as_json
def run(
    experiment: str,
    assignments: tuple[str, ...],
    dry_run: bool,
    evaluate: bool,
    yes: bool,
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
    from tuner import cluster
    from tuner.driver import run_experiment

    with cluster.connect(address, spec=spec):
        while True:
            try:
                results = run_experiment(spec)
                break
            except NameTakenError:  # a moment ago: the next free name, where none was asked for
                spec, source = _resolve(experiment, assignments, address, flags)
    return _finish(results, evaluate, as_json)


@cli.command()
@options.spec
@options.as_json
def validate(
    experiment: str, assignments: tuple[str, ...], as_json: bool, address: str, **flags: Any
) -> int:
    """Check EXPERIMENT and show what it comes to; starts nothing."""
    spec, source = _resolve(experiment, assignments, address, flags)
    _print_plan(spec, source, address, as_json)
    return 0


@cli.command()
@click.argument("name")
@options.address
@options.evaluate
@click.option("--retry-failed", is_flag=True, help="Failed trials go on, too.")
@click.option("--add-samples", type=click.IntRange(min=1), metavar="N", help="More trials.")
@click.option("--time-budget", type=options.Duration(), help="A new one, counted from now.")
@options.storage
@options.as_json
def resume(
    name: str,
    address: str,
    evaluate: bool,
    retry_failed: bool,
    add_samples: int | None,
    time_budget: float | None,
    storage: str | None,
    as_json: bool,
) -> int:
    """Go on with the interrupted experiment NAME."""
    from tuner import cluster
    from tuner.continuation import Extension
    from tuner.driver import resume_experiment

    before = _load(name, storage)
    _announce_code(before)
    with cluster.connect(address):
        more = Extension(add_samples or 0, time_budget, retry_failed)
        results = resume_experiment(before.folder, more=more)
    return _finish(results, evaluate, as_json)


@cli.command(name="ls")
@options.storage
@options.as_json
def list_(storage: str | None, as_json: bool) -> int:
    """List the experiments in the storage folder."""
    from tuner.listing import list_experiments
    from tuner.reporting.tables import experiments_table

    listed = list_experiments(storage)
    if as_json:
        _print_json([entry.as_dict() for entry in listed])
    else:
        click.echo(experiments_table(listed))
    return 0


@cli.command()
@click.argument("name")
@click.option("--follow", is_flag=True, help="Show how it goes until it ends; with Ctrl-C before.")
@options.storage
@options.as_json
def show(name: str, follow: bool, storage: str | None, as_json: bool) -> int:
    """Show how experiment NAME stands and its best trial."""
    from tuner.events import RUNNING
    from tuner.reporting import follow as following
    from tuner.reporting.text import summary

    results = _load(name, storage)
    if follow:
        following.follow(results)
        results = _load(name, storage)
    if as_json:
        _print_json(results.show())
    elif results.status == RUNNING:
        click.echo(following.standing(results, now=time.time()))
    else:
        click.echo(summary(results))
    return 0


@cli.command()
@click.argument("name")
@click.option("--metric", help="[default: the experiment's]")
@click.option("--mode", type=click.Choice(["min", "max"]), help="[default: the experiment's]")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="The K best, best first.")
@options.storage
@options.as_json
def best(
    name: str,
    metric: str | None,
    mode: str | None,
    top: int | None,
    storage: str | None,
    as_json: bool,
) -> int:
    """Show the best trial of experiment NAME, or the K best.

    Once the leaders are confirmed, they come first, by their means.
    """
    from tuner.confirmation import best_json
    from tuner.reporting.tables import best_text

    found = best_json(_load(name, storage), top=top or 1, metric=metric, mode=mode)
    if as_json:
        _print_json(found if top else found[0])
    else:
        click.echo("\n\n".join(map(best_text, found)))
    return 0


@cli.command()
@click.argument("name")
@click.option("--to", required=True, metavar="DIR", help="A new or empty folder.")
@options.trial
@options.storage
def export(name: str, to: str, trial_id: str | None, storage: str | None) -> int:
    """Export the best checkpoint of experiment NAME.

    Once confirmed, that is the retrained model that `tuner best` shows.
    """
    from tuner.confirmation import handed_over
    from tuner.export import export as write

    pick = handed_over(_load(name, storage), trial_id)
    click.echo(str(write(pick.results, to, trial_id=pick.trial_id)))
    return 0


@cli.command()
@click.argument("name")
@options.trial
@options.storage
@options.as_json
def evaluate(name: str, trial_id: str | None, storage: str | None, as_json: bool) -> int:
    """Measure experiment NAME's best on the test split, once.

    Once confirmed, that is the retrained model that `tuner best` shows.
    """
    from tuner.confirmation import handed_over
    from tuner.evaluation import evaluate as measure

    pick = handed_over(_load(name, storage), trial_id)
    _announce_code(pick.results)
    measured = {**measure(pick.results, pick.trial_id), **pick.told}
    if as_json:
        _print_json(measured)
    else:
        where = measured.pop("confirmed", {})
        for key, value in {**measured, **where}.items():
            click.echo(f"{key:18} {value:.4f}" if isinstance(value, float) else f"{key:18} {value}")
    return 0


@cli.command()
@click.argument("name")
@click.option(
    "--top", type=click.IntRange(min=1), default=3, show_default=True, help="Leaders to retrain."
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Fresh seeds of each."
)
@options.address
@options.evaluate
@options.storage
@options.as_json
def confirm(
    name: str,
    top: int,
    seeds: int,
    address: str,
    evaluate: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """Retrain the leaders of NAME with fresh seeds.

    Mean and spread over the seeds decide. Selection stays on the validation split; the test split
    is measured once, for the chosen one.
    """
    from tuner.confirm import confirm as retrain

    results = _load(name, storage)
    _announce_code(results)
    confirmation = retrain(results, top=top, seeds=seeds, address=address)
    return _finish_confirmation(confirmation, evaluate, as_json)


@cli.command()
@click.argument("name")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="P",
    help="Values of each continuous domain.",
)
@click.option("--to", metavar="FILE", help="A new .yaml file.  [default: NAME-refined.yaml]")
@options.storage
@options.as_json
def refine(name: str, points: int, to: str | None, storage: str | None, as_json: bool) -> int:
    """Write a grid around the leading trials of NAME.

    The file is an experiment for `tuner run`; look at it, change it, run it.
    """
    from tuner.refinement import refine as narrow
    from tuner.refinement import write_refined
    from tuner.reporting.refinement_text import refinement_json, refinement_text

    results = _load(name, storage)
    found = narrow(results, points=points)
    path = write_refined(found, Path(to) if to else None)
    if as_json:
        _print_json(refinement_json(found, path))
    else:
        click.echo(refinement_text(found, path, results.spec["search"]["space"]))
    return 0


@cli.command()
@click.argument("name")
@click.option("--port", type=int, default=6006, show_default=True)
@options.storage
def tensorboard(name: str, port: int, storage: str | None) -> int:
    """Open TensorBoard on experiment NAME, on this machine only."""
    from tuner.reporting.board import serve

    return serve(_load(name, storage).folder, port=port)


@cli.command()
@options.storage
@click.option("--address", metavar="auto|HOST:PORT", help="Look at this running cluster, too.")
@options.as_json
def doctor(storage: str | None, address: str | None, as_json: bool) -> int:
    """Check what would break a search here, and what is open."""
    from tuner.doctor import examine, is_broken

    findings = examine(storage, address)
    broken = is_broken(findings)
    if as_json:
        _print_json({"ok": not broken, "findings": [finding.as_dict() for finding in findings]})
    else:
        from rich.console import Console

        from tuner.reporting.doctor_text import doctor_table

        Console(highlight=False).print(doctor_table(findings))
    return int(broken)


def main() -> NoReturn:
    """Run the command line and exit with its code; the one place where errors become codes."""
    try:
        code = cli.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt, EOFError):
        click.echo("aborted", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except TunerError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except SystemExit:  # click ends so where our reader has gone: `tuner ls | head -1`
        code = 141
    gc.freeze()  # or the exit would first look for garbage in all of Ray and torch, for 0.3 s
    sys.exit(code or 0)


def _resolve(
    experiment: str, assignments: tuple[str, ...], address: str, flags: dict[str, Any]
) -> tuple[ExperimentSpec, str]:
    from tuner.resolution import resolve
    from tuner.validation import Machine

    changes = [*options.assignments_of(flags), *assignments]
    machine = Machine.here() if address == "local" else None
    spec, source = resolve(experiment, changes, strategy=flags["strategy"], machine=machine)
    if spec.warm_start:
        from tuner.searchers.warm import given_to

        for note in given.notes if (given := given_to(spec)) else ():
            click.echo(f"warm start: {note}", err=True)
    return spec, source


def _print_plan(spec: ExperimentSpec, source: str, address: str, as_json: bool) -> None:
    from tuner.plan import plan_of
    from tuner.reporting.plan_text import plan_text

    plan = plan_of(spec, here=address == "local")
    if as_json:
        _print_json({"spec": spec.model_dump(mode="json"), **plan})
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


def _finish(results: Results, evaluate: bool, as_json: bool) -> int:
    """Print what came of a search; its exit code."""
    from tuner.confirmation import confirmation_of
    from tuner.evaluation import can_evaluate
    from tuner.evaluation import evaluate as measure
    from tuner.reporting.text import summary

    if results.spec.get("confirms") and (confirmation := confirmation_of(results)):
        return _finish_confirmation(confirmation, evaluate, as_json)
    test = None
    try:
        if evaluate and can_evaluate(results.spec):
            test = measure(results)
        else:
            results.get_best_trial()
        code = SOME_FAILED if results.counts["failed"] else 0
    except NoUsableTrialError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    if as_json:
        _print_json({**results.show(), "test": test})
    else:
        click.echo(summary(results, test))
    return code


def _finish_confirmation(confirmation: Confirmation, evaluate: bool, as_json: bool) -> int:
    """Print what retraining the leaders has shown; the exit code."""
    from tuner.evaluation import can_evaluate
    from tuner.evaluation import evaluate as measure
    from tuner.reporting.confirmation_text import confirmation_text

    results, test = confirmation.results, None
    if evaluate and can_evaluate(results.spec):
        test = measure(results, confirmation.trial.trial_id)
    if as_json:
        _print_json({**confirmation.as_dict(), "test": test})
    else:
        click.echo(confirmation_text(confirmation, test))
    return SOME_FAILED if results.counts["failed"] else 0


def _announce_code(results: Results) -> None:
    """Say whose code is about to be imported, before it is; modules are found from here."""
    from tuner.experiments import search_modules_in
    from tuner.spec import IMAGE_CLASSIFIER

    search_modules_in(Path.cwd())
    trainable = results.spec.get("trainable")
    if trainable != IMAGE_CLASSIFIER:
        click.echo(f"importing {trainable}, which {results.name} names", err=True)


def _load(name: str, storage: str | None) -> Results:
    from tuner.results import load_results

    return load_results(name, storage)


def _print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
