"""Commands that make one last model of a search: refit and soup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.printing import json_text, print_outcome
from tuner.wording import number, printable

if TYPE_CHECKING:
    from tuner.vision.export.soup import Soup


@options.command("Hand over", 4, "tuner refit digits", "tuner refit digits --seeds 3 --gpus 1")
@click.argument("name")
@options.count("--seeds", "N", default=1, help="Train N models, the first with the trial's seed.")
@options.trial
@options.cpus
@options.gpus
@options.address
@options.evaluate
@options.trust
@options.storage
@options.as_json
def refit(
    name: str,
    seeds: int,
    trial_id: str | None,
    cpus: float | None,
    gpus: float | None,
    address: str,
    evaluate: bool,
    trust: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """Train NAME's best config on training and validation images.

    It trains for the number of epochs that validation chose, as the experiment NAME-refit. Nothing
    is validated any more; the test split is measured once, at the end. `tuner resume NAME-refit`
    goes on after a kill, and `tuner export NAME-refit --to DIR` hands the model over.
    """
    results = tuner.load_results(name, storage)
    admit_experiment(results, trust=trust, trains_only=True)
    resources = {"cpus": cpus, "gpus": gpus}
    refitted = tuner.refit(results, trial_id=trial_id, seeds=seeds, address=address, **resources)
    return print_outcome(refitted, evaluate=evaluate, as_json=as_json)


@options.command(
    "Hand over", 5, "tuner soup digits --top 5", "tuner soup digits --top 5 --to final_model"
)
@click.argument("name")
@options.count("--top", "K", default=5, help="Combine the K best trials.")
@click.option("--to", metavar="DIR", help="Export the chosen model into this folder, new or empty.")
@options.formats
@options.trust
@options.storage
@options.as_json
def soup(
    name: str,
    top: int,
    to: str | None,
    formats: tuple[str, ...],
    trust: bool,
    storage: str | None,
    as_json: bool,
) -> int:
    """Combine the best trials of NAME into one model.

    On the validation split it measures the best trial, a soup (the average of the weights of those
    trials that improve it) and an ensemble (the mean of the probabilities of all). The best of the
    three is exported to DIR; a tie goes to the first. Nothing is trained.
    """
    results = tuner.load_results(name, storage)
    admit_experiment(results, trust=trust, trains_only=True)
    done = tuner.soup(results, to, top=top, formats=formats)
    click.echo(json_text(done.as_dict()) if as_json else _table(done))
    return 0


def _table(done: Soup) -> str:
    """The candidates, the chosen one, and the trials that are left out."""
    from tuner.wording import aligned

    names = list(dict.fromkeys([done.objective.metric, *done.chosen.metrics]))
    rows = [("MODEL", *map(str.upper, names), "TRIALS")]
    for each in done.candidates:
        values = [number(each.metrics[name]) for name in names]
        rows.append((each.kind, *values, " ".join(each.trials)))
    lines = [f"{done.name}, calibrated, on the validation split", "", *aligned(rows), ""]
    lines += [f"trial {trial_id} {why}" for trial_id, why in done.left_out.items()]
    lines.append(f"chosen: {done.chosen.kind}")
    lines += [f"exported to {done.folder}"] if done.folder else []
    return "\n".join(map(printable, lines))
