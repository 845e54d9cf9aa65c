"""tuner logs, and how `tuner submit` follows a job."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from tuner.cli import options
from tuner.wording import program

if TYPE_CHECKING:
    from tuner.cluster.jobs import Jobs


@click.command(cls=options.Command, section="Cluster", place=3)
@options.job
@click.option(
    "--follow", is_flag=True, help="Keep showing it until the job ends; exit with its code."
)
@options.dashboard
def logs(job_id: str, follow: bool, address: str) -> int:
    """Show the log of job ID."""
    from tuner.cluster.jobs import connected

    with connected(address) as cluster:
        if follow:
            cluster.get(job_id)
            return follow_job(cluster, job_id, address)
        click.echo(click.unstyle(cluster.log(job_id)), nl=False)
    return 0


def _print(text: str) -> None:
    click.echo(click.unstyle(text), nl=False, err=True)


def follow_job(cluster: Jobs, job_id: str, address: str) -> int:
    """Print the job's log to stderr until it ends; the search's exit code, 130 after Ctrl-C."""
    try:
        job = cluster.follow(job_id, _print)
    except KeyboardInterrupt:
        follow, end = f"{program()} logs --follow", f"{program()} stop"
        which = f"{shlex.quote(job_id)} --address {shlex.quote(address)}"
        text = f"the job goes on; follow it: {follow} {which}; end it: {end} {which}"
        click.echo(f"\n{text}", err=True)
        return 130
    if job.code is None and job.exit_code:
        click.echo(f"job {job_id} {job.status.lower()}: {job.message}", err=True)
    return job.exit_code
