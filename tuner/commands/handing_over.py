"""Commands that hand over the best model: export, evaluate."""

from __future__ import annotations

import click

from tuner.commands import options
from tuner.commands.outcome import announce_code, load, print_json


@click.command()
@click.argument("name")
@click.option("--to", required=True, metavar="DIR", help="A new or empty folder.")
@options.trial
@options.storage
def export(name: str, to: str, trial_id: str | None, storage: str | None) -> int:
    """Export the best checkpoint of experiment NAME.

    Once confirmed, that is the retrained model that `tuner best` shows.
    """
    from tuner.best import handed_over
    from tuner.export import export as write

    pick = handed_over(load(name, storage), trial_id)
    click.echo(str(write(pick.results, to, trial_id=pick.trial_id)))
    return 0


@click.command()
@click.argument("name")
@options.trial
@options.storage
@options.as_json
def evaluate(name: str, trial_id: str | None, storage: str | None, as_json: bool) -> int:
    """Measure experiment NAME's best on the test split, once.

    Once confirmed, that is the retrained model that `tuner best` shows.
    """
    from tuner.best import handed_over
    from tuner.evaluation import evaluate as measure

    pick = handed_over(load(name, storage), trial_id)
    announce_code(pick.results)
    measured = {**measure(pick.results, pick.trial_id), **pick.told}
    if as_json:
        print_json(measured)
    else:
        where = measured.pop("confirmed", {})
        for key, value in {**measured, **where}.items():
            click.echo(f"{key:18} {value:.4f}" if isinstance(value, float) else f"{key:18} {value}")
    return 0
