"""tuner stop."""

from __future__ import annotations

import shlex

import click

from tuner.cli import options
from tuner.wording import program


@click.command(cls=options.Command, section="Cluster", place=4)
@options.job
@options.dashboard
def stop(job_id: str, address: str) -> int:
    """Stop job ID; its search can be resumed."""
    from tuner.cluster.jobs import connected

    with connected(address) as cluster:
        job = cluster.stop(job_id)
    go_on = f"{program()} submit --resume NAME --address {shlex.quote(address)}"
    click.echo(f"{job.status.lower()}; go on with: {go_on}")
    return 0
