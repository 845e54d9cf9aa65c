"""tuner note."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Keep",
    place=2,
    examples=['tuner note digits "before the images were cleaned"', "tuner note digits"],
)
@click.argument("name")
@click.argument("text", required=False)
@options.storage
@options.as_json
def note(name: str, text: str | None, storage: str | None, as_json: bool) -> int:
    """Write a note about experiment NAME, or show it.

    ls, show, compare and the report show it. An empty TEXT removes it.
    """
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import find_experiment
    from tuner.wording import printable

    experiment = Described(find_experiment(name, storage))
    labels = experiment.labels
    if text is not None:
        labels = labels.noted(text)
        labels.write(experiment.files)
    click.echo(json_text(labels.note) if as_json else printable(labels.note) or "no note")
    return 0
