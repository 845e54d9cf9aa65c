"""tuner stop."""

from __future__ import annotations

import click

from tuner.cli import options


@click.command(cls=options.Command, section="Cluster", place=4)
@options.job
@options.dashboard
def stop(job_id: str, address: str) -> int:
    """End the job ID; its search can be resumed."""
    from tuner.cluster.jobs import connected

    with connected(address) as cluster:
        job = cluster.stop(job_id)
    click.echo(f"{job.status.lower()}; go on with: tuner submit --resume NAME --address {address}")
    return 0
