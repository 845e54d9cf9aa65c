"""tuner rm."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.consent import ask
from tuner.errors import UsageError


@click.command(cls=options.Command, section="Keep", place=5)
@click.argument("names", nargs=-1, required=True, metavar="NAME ...")
@click.option("--yes", is_flag=True, help="Remove them without asking.")
@options.storage
def rm(names: tuple[str, ...], yes: bool, storage: str | None) -> int:
    """Remove experiments with everything in their folders.

    It asks first. An experiment that is running is refused.
    """
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.storage import find_experiment
    from tuner.wording import amount_of, printable, size

    found = [ExperimentFolder(find_experiment(name, storage)) for name in names]
    for one in found:
        if one.is_driven:
            raise UsageError(f"{one.location} is running: end it before it is removed")
    for one in found:
        files = one.sizes()
        what = f"{amount_of(len(files), 'file')}, {size(sum(files.values()))}"
        click.echo(f"{printable(one.location)}: {what}", err=True)
    unattended = "rm asks before it removes, and there is no terminal: give --yes"
    ask("remove for good?", yes=yes, unattended=unattended)
    for one in found:
        one.remove(warn=lambda text: click.echo(text, err=True))
        click.echo(f"removed {printable(one.location)}")
    return 0
