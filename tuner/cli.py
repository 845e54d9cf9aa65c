"""The command line: parses, calls, prints. Data goes to stdout, all else to stderr.

Everything heavy is imported by the command that needs it, so that `--help` is instant.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tuner.errors import NoUsableTrialError, TunerError, UsageError

if TYPE_CHECKING:
    from tuner.results import Results
    from tuner.spec import ExperimentSpec

SOME_FAILED = 3

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_GRID_TO_CONFIRM = 10_000  # cells


class Duration(click.ParamType[float]):
    """Seconds, from `90`, `90s`, `10m` or `1h30m`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", value)
        if not parts or "".join(n + u for n, u in parts) != value or ("", "") in parts:
            self.fail(f"{value!r} is no duration; write 90, 90s, 10m or 1h30m", param, ctx)
        return sum(float(number) * _UNITS[unit or "s"] for number, unit in parts)


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


_storage = click.option(
    "--storage", metavar="DIR", help="[default: $TUNER_STORAGE, else ./results]"
)
_address = click.option(
    "--address", default="local", metavar="local|auto|HOST:PORT", help="[default: local]"
)
_evaluate = click.option(
    "--evaluate/--no-evaluate", default=True, help="Measure the best on the test split."
)
_spec_options = _options(
    click.argument("experiment"),
    click.argument("assignments", nargs=-1, metavar="[KEY=VALUE ...]"),
    click.option(
        "--search", "strategy", metavar="NAME", help="random, grid, hyperopt, bayesopt or bohb."
    ),
    click.option("--num-samples", type=int, metavar="N", help="Trials to run."),
    click.option("--max-concurrent", type=int, metavar="N", help="Trials at a time."),
    click.option("--time-budget", type=Duration(), help="End the search after this time: 10m, 2h."),
    click.option("--seed", type=int, metavar="N", help="Of the configs and of the training."),
    click.option("--cpus", type=float, metavar="X", help="CPUs of each worker of a trial."),
    click.option("--gpus", type=float, metavar="X", help="GPUs of each worker; 0.25 shares one."),
    click.option("--workers", type=int, metavar="N", help="Workers (DDP ranks) of a trial."),
    click.option("--name", help="Of the experiment; by default its module's, or the next free."),
    _storage,
    click.option("--data-dir", metavar="DIR", help="Where data sets lie (training.data_dir)."),
    _address,
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
_trial = click.option("--trial", "trial_id", metavar="ID", help="This trial, not the best one.")


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
@_spec_options
@click.option("--dry-run", is_flag=True, help="Only check: the same as `tuner validate`.")
@_evaluate
@click.option("--yes", is_flag=True, help="Begin a grid of more than 10,000 trials unasked.")
@_json
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

    with cluster.connect(address):
        results = run_experiment(spec)
    return _finish(results, evaluate, as_json)


@cli.command()
@_spec_options
@_json
def validate(
    experiment: str, assignments: tuple[str, ...], as_json: bool, address: str, **flags: Any
) -> int:
    """Check EXPERIMENT and show what it comes to; starts nothing."""
    spec, source = _resolve(experiment, assignments, address, flags)
    _print_plan(spec, source, address, as_json)
    return 0


@cli.command()
@click.argument("name")
@_address
@_evaluate
@click.option("--retry-failed", is_flag=True, help="Failed trials go on, too.")
@click.option("--add-samples", type=click.IntRange(min=1), metavar="N", help="More trials.")
@click.option("--time-budget", type=Duration(), help="A new one, counted from now.")
@_storage
@_json
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
@_storage
@_json
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
@_storage
@_json
def show(name: str, storage: str | None, as_json: bool) -> int:
    """Show the status of experiment NAME and its best trial."""
    from tuner.reporting.text import summary

    results = _load(name, storage)
    if as_json:
        _print_json(results.show())
    else:
        click.echo(summary(results))
    return 0


@cli.command()
@click.argument("name")
@click.option("--metric", help="[default: the experiment's]")
@click.option("--mode", type=click.Choice(["min", "max"]), help="[default: the experiment's]")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="The K best, best first.")
@_storage
@_json
def best(
    name: str,
    metric: str | None,
    mode: str | None,
    top: int | None,
    storage: str | None,
    as_json: bool,
) -> int:
    """Show the best trial of experiment NAME, or the K best."""
    from tuner.reporting.tables import best_text

    results = _load(name, storage)
    results.get_best_trial(metric, mode)  # raises where there is none
    trials = results.top(top or 1, metric, mode)
    found = [results.best_json(trial, metric=metric, mode=mode) for trial in trials]
    if as_json:
        _print_json(found if top else found[0])
    else:
        click.echo("\n\n".join(map(best_text, found)))
    return 0


@cli.command()
@click.argument("name")
@click.option("--to", required=True, metavar="DIR", help="A new or empty folder.")
@_trial
@_storage
def export(name: str, to: str, trial_id: str | None, storage: str | None) -> int:
    """Export the best checkpoint of experiment NAME."""
    from tuner.export import export as write

    click.echo(str(write(_load(name, storage), to, trial_id=trial_id)))
    return 0


@cli.command()
@click.argument("name")
@_trial
@_storage
@_json
def evaluate(name: str, trial_id: str | None, storage: str | None, as_json: bool) -> int:
    """Measure experiment NAME's best on the test split, once."""
    from tuner.evaluation import evaluate as measure

    results = _load(name, storage)
    _announce_code(results)
    measured = measure(results, trial_id)
    if as_json:
        _print_json(measured)
    else:
        for key, value in measured.items():
            click.echo(f"{key:18} {value:.4f}" if isinstance(value, float) else f"{key:18} {value}")
    return 0


@cli.command()
@click.argument("name")
@click.option("--port", type=int, default=6006, show_default=True)
@_storage
def tensorboard(name: str, port: int, storage: str | None) -> NoReturn:
    """Open TensorBoard on experiment NAME, on this machine only."""
    from tuner.reporting.tensorboard import serve

    serve(_load(name, storage).folder, port=port)


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
    sys.exit(code or 0)


def _resolve(
    experiment: str, assignments: tuple[str, ...], address: str, flags: dict[str, Any]
) -> tuple[ExperimentSpec, str]:
    """The validated spec of EXPERIMENT with its overrides, and where it comes from."""
    from tuner.experiments import load_experiment
    from tuner.spec import override, with_strategy
    from tuner.storage import already_there, free_name
    from tuner.validation import Machine, validate

    found = load_experiment(experiment)
    raw = with_strategy(found.raw, flags["strategy"]) if flags["strategy"] else found.raw
    raw = override({"name": found.name, **raw}, _flag_assignments(flags) + list(assignments))
    named = flags["name"] or any(a.startswith("name=") for a in assignments)
    name, storage = raw["name"], raw.get("storage")
    if not named and isinstance(name, str) and isinstance(storage, str | None):
        raw["name"] = free_name(name, storage)
    machine = Machine.here() if address == "local" else None
    spec = validate(raw, source=found.source, machine=machine)
    if os.path.lexists(spec.folder):  # told before anything starts
        raise already_there(spec.folder)
    return spec, found.source


def _flag_assignments(flags: dict[str, Any]) -> list[str]:
    """The given flags as KEY=VALUE, for the one way that values take."""
    paths = {
        "num_samples": "num_samples",
        "max_concurrent": "max_concurrent",
        "time_budget": "time_budget_s",
        "seed": "seed",
        "cpus": "resources.cpus",
        "gpus": "resources.gpus",
        "workers": "resources.workers",
        "name": "name",
        "storage": "storage",
        "data_dir": "training.data_dir",
    }
    return [
        f"{path}={json.dumps(flags[flag])}"
        for flag, path in paths.items()
        if flags[flag] is not None
    ]


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
    from tuner.evaluation import can_evaluate
    from tuner.evaluation import evaluate as measure
    from tuner.reporting.text import summary

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
