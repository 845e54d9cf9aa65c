"""tuner resume."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.printing import exit_code, print_outcome


@click.command(
    cls=options.Command,
    section="Search",
    place=3,
    examples=[
        "tuner resume digits",
        "tuner resume digits --retry-failed --time-budget 1h",
        "tuner resume digits --add-samples 20",
        "tuner resume digits scheduler.max_t=20",
    ],
)
@click.argument("name")
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE ...]")
@options.address
@options.evaluate
@click.option("--retry-failed", is_flag=True, help="Run the failed trials again, too.")
@click.option("--add-samples", type=click.IntRange(min=1), metavar="N", help="Run N more trials.")
@click.option("--time-budget", type=options.Duration(), help="A new budget, counted from now.")
@options.max_concurrent
@options.notify
@options.wait_for_resources
@options.yes
@options.storage
@options.as_json
def resume(
    name: str,
    changes: tuple[str, ...],
    address: str,
    wait_for_resources: float | None,
    evaluate: bool,
    retry_failed: bool,
    add_samples: int | None,
    time_budget: float | None,
    max_concurrent: int | None,
    notify: tuple[str, ...],
    yes: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """Go on with experiment NAME where it ended.

    Trials that have ended are kept; the others go on from their newest checkpoints. KEY=VALUE
    changes a setting from now on: scheduler.max_t (completed trials train longer), num_samples,
    time_budget_s, max_concurrent, stop, timeouts, log, resources.cpus or resources.gpus. What
    would give the recorded trials another meaning is refused.
    """
    from tuner.cluster import connect as cluster
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import find_experiment
    from tuner.search.resuming import Extension, finished, trainable_of
    from tuner.spec.code import refuse_elsewhere
    from tuner.spec.text import assigned

    before = Described(find_experiment(name, storage))
    refuse_elsewhere(before.spec.trainable)
    asked = dict(assigned(changes))
    if max_concurrent is not None:
        asked["max_concurrent"] = max_concurrent
    more = Extension(add_samples or 0, time_budget, retry_failed, asked, notify)
    if results := finished(before.folder, more):
        from tuner.reporting.experiment_text import nothing_left

        click.echo(nothing_left(results), err=as_json)
        if as_json:
            admit_experiment(before, yes=yes)  # to evaluate the best may import its code
            return print_outcome(results, evaluate=evaluate, as_json=True)
        return exit_code(results)
    trainable_of(before.spec.trainable, None, before.folder)  # refused before Ray is started
    admit_experiment(before, yes=yes)
    spec = before.spec
    with cluster.connect(address, spec=spec):
        cluster.await_room(spec.resources, wait_for_resources)
        results = tuner.resume_experiment(before.folder, more=more)
    return print_outcome(results, evaluate=evaluate, as_json=as_json)
