"""tuner tensorboard."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options


@click.command(cls=options.Command, section="Look", place=5)
@click.argument("name")
@click.option("--port", type=int, default=6006, show_default=True)
@options.storage
def tensorboard(name: str, port: int, storage: str | None) -> int:
    """Open TensorBoard on experiment NAME, on this machine only."""
    from tuner.reporting.tensorboard_server import serve

    results = tuner.load_results(name, storage)
    with results.files.event_files_synced():
        return serve(results.folder, port=port)
