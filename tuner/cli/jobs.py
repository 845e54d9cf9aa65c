"""tuner jobs."""

from __future__ import annotations

import time

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Cluster", place=2)
@options.dashboard
@options.as_json
def jobs(address: str, as_json: bool) -> int:
    """List the jobs on a cluster, running and ended."""
    from tuner.cluster.jobs import connected
    from tuner.reporting.tables import jobs_table

    with connected(address) as cluster:
        listed = cluster.all()
    shown = [job.as_dict() for job in listed]
    click.echo(json_text(shown) if as_json else jobs_table(listed, now=time.time()))
    return 0
