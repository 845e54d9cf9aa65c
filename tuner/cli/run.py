"""tuner run and tuner resume."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.outcome import choose_exit_code, preload_evaluation, print_outcome
from tuner.cli.printing import warn
from tuner.cli.validate import prepare_search, print_plan
from tuner.cluster import LOCAL
from tuner.errors import NameTakenError

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results


@options.command(
    "Search",
    1,
    "tuner run digits",
    "tuner run folder:photos --num-samples 8 --time-budget 2h",
    "tuner run my_search.yaml --search bayesopt --gpus 0.5 --max-concurrent 4",
    "tuner run --command 'python train.py --lr {lr}' search.space.lr='loguniform(1e-4, 1e-1)' "
    "--num-samples 20",
    "tuner run digits --name wide scheduler.max_t=30 search.space.lr='loguniform(1e-5, 1e-1)'",
    "tuner run --like wide --search bohb",
)
@options.spec
@click.option("--dry-run", is_flag=True, help="Only check, as `tuner validate` does.")
@options.evaluate
@options.trust
@options.wait_for_resources
@options.as_json
def run(
    dry_run: bool,
    evaluate: bool,
    trust: bool,
    wait_for_resources: float | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Search for good hyperparameters of EXPERIMENT.

    \b
    EXPERIMENT is one of
      folder:PATH        your images, in a sub-folder for each class; everything else has
                         defaults; torchvision:NAME and hf:NAME likewise
      FILE               a .yaml, .json or .py file with the spec of the search
      NAME               your own experiments/NAME.py, or one that ships: digits, digits_grid,
                         digits_mixed, digits_bayesopt, digits_hyperopt, digits_bohb, cifar10_net,
                         cifar10_resnet, cifar10_speednet
      MODULE:FUNCTION    a function of yours that returns the spec

    A script is searched as it is by --command (docs/your_training.md).

    KEY=VALUE sets any key of the spec; `tuner spec` explains them all.
    """
    from tuner.reporting.plan_text import format_start_banner
    from tuner.spec.code import refuse_elsewhere
    from tuner.spec.plan import list_warnings

    address: str = flags["address"]
    plan, source = prepare_search(flags, trust=trust)
    if dry_run:
        print_plan(plan, source, address, as_json)
        return 0
    spec = plan.spec
    refuse_elsewhere(spec.trainable)
    _warn(list_warnings(spec, here=address == LOCAL))
    for hint in plan.declaration.list_hints(spec):
        warn(f"hint: {hint}")
    # Before any Ray starts: images may turn out to be unreadable
    plan = plan.pin_data()
    _warn(plan.data.doubts if plan.data else ())
    warn(format_start_banner(spec, plan.trials))
    from tuner.cluster import connect as cluster

    with cluster.connect(address, spec=spec, trials=plan.trials):
        cluster.wait_for_room(spec.resources, wait_for_resources)
        while True:
            try:
                with preload_evaluation(plan.spec, evaluate=evaluate):
                    results = tuner.run_experiment(plan)
                break
            except NameTakenError:
                # By another run, a moment ago: resolved to the next free name
                plan, _ = prepare_search(flags, trust=True)
        refit = _refit_best(results, address)
    return print_outcome(results, refit, evaluate=evaluate, as_json=as_json)


def _refit_best(results: Results, address: str) -> Results | None:
    """Refit the best trial on the Ray at `address`, where the spec wants that."""
    from tuner.experiment.results.confirmation import should_refit
    from tuner.reporting.commands import format_resume_command
    from tuner.search.retraining import run_requested_refit
    from tuner.spec.experiment import FINAL

    if should_refit(results):
        images = "all" if results.spec.refit == FINAL else "training and validation"
        warn(f"training the best config on {images} images")
    refit = run_requested_refit(results, address=address)
    if refit is None and should_refit(results):
        go_on = format_resume_command(results.folder, results.spec.trainable)
        warn(
            "warning: the refit has not come to its end, so the best trial stays the "
            f"model; go on with: {go_on}"
        )
    return refit


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        warn(f"warning: {warning}")


@options.command(
    "Search",
    3,
    "tuner resume digits",
    "tuner resume digits --retry-failed --time-budget 1h",
    "tuner resume digits --add-samples 20",
    "tuner resume digits scheduler.max_t=20",
    "tuner resume digits --add-samples 9 search.space.lr='loguniform(1e-5, 9)'",
)
@click.argument("name")
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE ...]")
@options.address
@options.evaluate
@click.option("--retry-failed", is_flag=True, help="Run the failed trials again, too.")
@options.count("--add-samples", "N", help="Run N more trials.")
@click.option(
    "--time-budget", type=options.duration, help="A new budget, counted from now."
)
@options.max_concurrent
@options.notify
@options.wait_for_resources
@options.trust
@options.storage_and_json
def resume(
    name: str,
    changes: tuple[str, ...],
    address: str,
    wait_for_resources: float | None,
    evaluate: bool,
    add_samples: int | None,
    time_budget: float | None,
    max_concurrent: int | None,
    trust: bool,
    storage: str | None,
    as_json: bool,
    **extension: Any,
) -> int:
    """Go on with experiment NAME where it ended.

    Trials that have ended are kept; the others go on from their newest checkpoints. KEY=VALUE
    changes a setting from now on: scheduler.max_t (completed trials train longer), num_samples,
    time_budget_s, max_concurrent, stop, timeouts, log, resources.cpus, resources.gpus, or a domain
    that gets wider (search.space.lr). What
    would give the recorded trials another meaning is refused.
    """
    from tuner.cluster import connect as cluster
    from tuner.experiment.results.confirmation import find_refit, should_refit
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import find_experiment
    from tuner.search.extension import Extension, load_if_finished, resolve_trainable
    from tuner.spec.code import refuse_elsewhere
    from tuner.spec.retired import refuse_retired
    from tuner.spec.text import parse_assignments

    before = Described(find_experiment(name, storage))
    refuse_elsewhere(before.spec.trainable)
    refuse_retired(before.document["spec"], f"the resume of {before.name}")
    settings = dict(parse_assignments(changes))
    if max_concurrent is not None:
        settings["max_concurrent"] = max_concurrent
    more = Extension(add_samples or 0, time_budget, changes=settings, **extension)
    results = load_if_finished(before.folder, more)
    if results and not should_refit(results):
        from tuner.reporting.commands import explain_completion

        click.echo(explain_completion(results), err=as_json)
        if as_json:
            if evaluate:
                admit_experiment(before, trust=trust)
            return print_outcome(
                results, find_refit(results), evaluate=evaluate, as_json=True
            )
        return choose_exit_code(results)
    # Refused before Ray is started
    resolve_trainable(before.spec.trainable, None, before.folder)
    admit_experiment(before, trust=trust)
    spec = before.spec
    with cluster.connect(address, spec=spec):
        cluster.wait_for_room(spec.resources, wait_for_resources)
        with preload_evaluation(spec, evaluate=evaluate):
            results = tuner.resume_experiment(before.folder, more=more)
        refit = _refit_best(results, address)
    return print_outcome(results, refit, evaluate=evaluate, as_json=as_json)
