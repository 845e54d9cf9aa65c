"""Commands for searches that run as jobs on a cluster: submit, jobs, logs, stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.outcome import print_json
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.cluster.jobs import Jobs

_dashboard = click.option(
    "--address",
    required=True,
    envvar="RAY_API_SERVER_ADDRESS",
    metavar="http://HEAD:8265",
    help="The cluster's dashboard.  [default: $RAY_API_SERVER_ADDRESS]",
)
_job = click.argument("job_id", metavar="ID")


@click.command()
@options.perhaps_spec
@click.option("--resume", metavar="NAME", help="Go on with this experiment instead.")
@click.option("--no-wait", is_flag=True, help="Print the job's id and leave it.")
@options.wait_for_resources
@_dashboard
def submit(
    experiment: str | None,
    assignments: tuple[str, ...],
    resume: str | None,
    no_wait: bool,
    wait_for_resources: float | None,
    address: str,
    **flags: Any,
) -> int:
    """Run EXPERIMENT as a job on a cluster.

    The files of this folder are sent along. Prints the job's id, follows its log until the search
    has ended, and exits with the search's code; with Ctrl-C the job goes on.
    """
    from tuner.cluster.jobs import connected, entry, refuse_relative
    from tuner.places import is_url, local
    from tuner.spec.experiment import default_storage

    directory = Path.cwd()
    if (resume is None) == (experiment is None):
        raise UsageError("give either EXPERIMENT or --resume NAME")
    wait = [] if wait_for_resources is None else [f"--wait-for-resources={wait_for_resources:g}s"]
    given_storage = flags["storage"] or default_storage()
    storage = given_storage if is_url(given_storage) else str(Path(given_storage).expanduser())
    refuse_relative(storage)
    if resume is not None:
        arguments = ["resume", resume, "--storage", storage]
    else:
        assert experiment is not None
        _check(experiment, assignments, flags)
        given = options.assignments_of({**flags, "storage": storage})
        chosen = [f"--search={flags['strategy']}"] if flags["strategy"] else []
        arguments = ["run", entry(experiment, directory), *given, *assignments, *chosen]
    with connected(address) as there:
        job_id = there.submit([*arguments, *wait], directory=directory, storage=local(storage))
        click.echo(job_id)
        return 0 if no_wait else _follow(there, job_id, address)


def _check(experiment: str, assignments: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Refuse here what the cluster would refuse, but for what only it knows."""
    from tuner.planning.resolve import resolve

    changes = [*options.assignments_of({**flags, "name": None, "storage": None}), *assignments]
    resolve(experiment, changes, strategy=flags["strategy"])


def _follow(there: Jobs, job_id: str, address: str) -> int:
    try:
        job = there.follow(job_id, lambda text: click.echo(text, nl=False, err=True))
    except KeyboardInterrupt:
        end = f"tuner stop {job_id} --address {address}"
        click.echo(
            f"\nthe job goes on; follow it: tuner logs --follow {job_id}; end it: {end}", err=True
        )
        return 130
    if job.code is None and job.exit_code:
        click.echo(f"job {job_id} {job.status.lower()}: {job.message}", err=True)
    return job.exit_code


@click.command()
@_dashboard
@options.as_json
def jobs(address: str, as_json: bool) -> int:
    """List the searches that run, or ran, as jobs on a cluster."""
    from tuner.cluster.jobs import connected
    from tuner.reporting.tables import jobs_table

    with connected(address) as there:
        listed = there.all()
    if as_json:
        print_json([job.as_dict() for job in listed])
    else:
        click.echo(jobs_table(listed, now=time.time()))
    return 0


@click.command()
@_job
@click.option("--follow", is_flag=True, help="Until the job ends; exits with its code.")
@_dashboard
def logs(job_id: str, follow: bool, address: str) -> int:
    """Show what the job ID says."""
    from tuner.cluster.jobs import connected

    with connected(address) as there:
        if follow:
            there.get(job_id)
            return _follow(there, job_id, address)
        click.echo(there.log(job_id), nl=False)
    return 0


@click.command()
@_job
@_dashboard
def stop(job_id: str, address: str) -> int:
    """End the job ID; its search can be resumed."""
    from tuner.cluster.jobs import connected

    with connected(address) as there:
        job = there.stop(job_id)
    click.echo(f"{job.status.lower()}; go on with: tuner submit --resume NAME --address {address}")
    return 0
