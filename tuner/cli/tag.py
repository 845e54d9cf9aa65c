"""tuner tag."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Keep",
    place=1,
    examples=["tuner tag digits baseline cnn", "tuner tag digits cnn --remove", "tuner tag digits"],
)
@click.argument("name")
@click.argument("tags", nargs=-1, metavar="[TAG ...]")
@click.option("--remove", is_flag=True, help="Remove these tags.")
@options.storage
@options.as_json
def tag(name: str, tags: tuple[str, ...], remove: bool, storage: str | None, as_json: bool) -> int:
    """Add tags to experiment NAME, and show them.

    ls, show, compare and the report show them, and `tuner ls --tag TAG` finds experiments by them.
    """
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import find_experiment

    experiment = Described(find_experiment(name, storage))
    labels = experiment.labels
    if tags:
        labels = labels.untagged(tags) if remove else labels.tagged(tags)
        labels.write(experiment.files)
    click.echo(json_text(list(labels.tags)) if as_json else " ".join(labels.tags) or "no tags")
    return 0
