"""Commands that serve pages: serve and tensorboard."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from tuner.cli import options
from tuner.errors import UsageError
from tuner.wording import suggest_install

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _port(least: int, *, default: int, help: str) -> Callable[[Any], Any]:
    kind = click.IntRange(least, 65535)
    return click.option(
        "--port", type=kind, default=default, show_default=True, metavar="N", help=help
    )


@options.command(
    "Look",
    6,
    "tuner serve",
    "tuner serve --storage s3://BUCKET/results --port 0",
    "tuner serve --host 0.0.0.0 --cert server.pem --key server.key",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on; one that others can reach needs TLS.",
)
@_port(0, default=8642, help="The port to listen on; 0 takes a free one.")
@click.option("--cert", type=_FILE, metavar="FILE", help="The certificate for TLS.")
@click.option(
    "--key", type=_FILE, metavar="FILE", help="The private key of the certificate."
)
@click.option(
    "--insecure",
    "is_insecure",
    is_flag=True,
    help="Allow a --host that others can reach without TLS.",
)
@click.option(
    "--mcp-trials",
    "trials",
    type=click.IntRange(min=0),
    metavar="N",
    help="The trials that agents may queue by MCP, in all.  [default: any number]",
)
@click.option(
    "--mcp-time-budget",
    "time_budget_s",
    type=options.duration,
    metavar="DURATION",
    help="The time budget of all searches that agents queue by MCP, in all.  [default: any]",
)
@options.storage
def serve(storage: str | None, **settings: Any) -> None:
    """Show the experiments in a browser, and steer those that run.

    Open the address that it prints. The token in it is the key: nothing is shown without it. It is
    new at each start, unless $TUNER_SERVE_TOKEN sets it. Agents use the same token at /mcp.
    """
    from tuner.service.app import serve as run

    limits = {key: settings.pop(key) for key in ("trials", "time_budget_s")}
    agents = {key: most for key, most in limits.items() if most is not None}
    if not (has_mcp := find_spec("mcp") is not None):
        click.echo(
            f"/mcp is off, since it needs a package: {suggest_install('serve')}",
            err=True,
        )
    settings["agents"] = agents if has_mcp else None
    run(storage, notify=lambda url, port: click.echo(url), **settings)


@options.command("Look", 5)
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@_port(1, default=6006, help="The port to listen on.")
@options.storage
def tensorboard(names: tuple[str, ...], port: int, storage: str | None) -> int:
    """Serve TensorBoard for experiments, on this machine only.

    Without NAME it shows all experiments in the storage, and new ones as they appear.
    """
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import (
        find_experiment,
        find_experiment_folders,
        resolve_storage,
    )
    from tuner.places import format_path
    from tuner.reporting.tensorboard_server import serve

    def find() -> list[ExperimentFolder]:
        return [
            ExperimentFolder(folder)
            for folder in sorted(find_experiment_folders(storage))
        ]

    experiments = [
        Described(find_experiment(name, storage)).files for name in names
    ] or find()
    if not experiments:
        raise UsageError(
            f"no experiments in {format_path(resolve_storage(storage))} yet"
        )
    return serve(experiments, port=port, find=None if names else find)
