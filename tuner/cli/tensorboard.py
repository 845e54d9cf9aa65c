"""tuner tensorboard."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import print_tunnel
from tuner.errors import UsageError


@click.command(cls=options.Command, section="Look", place=5)
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=6006,
    show_default=True,
    metavar="N",
    help="The port to listen on.",
)
@options.storage
def tensorboard(names: tuple[str, ...], port: int, storage: str | None) -> int:
    """Serve TensorBoard for experiments, on this machine only.

    Without NAME it shows all experiments in the storage, and new ones as they appear.
    """
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import experiment_folders, find_experiment, storage_folder
    from tuner.places import shown
    from tuner.reporting.tensorboard_server import serve

    def find() -> list[ExperimentFolder]:
        return [ExperimentFolder(folder) for folder in sorted(experiment_folders(storage))]

    found = [Described(find_experiment(name, storage)).files for name in names] or find()
    if not found:
        raise UsageError(f"no experiments in {shown(storage_folder(storage))} yet")
    print_tunnel(port)
    return serve(found, port=port, find=None if names else find)
