"""Commands that make one last model of a search: refit and soup."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import admit_experiment
from tuner.cli.printing import print_outcome


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
