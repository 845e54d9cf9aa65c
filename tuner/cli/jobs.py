"""Commands for jobs on a cluster: submit, jobs, logs and stop."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.consent import admit
from tuner.cli.printing import json_text
from tuner.cli.validate import named_experiment
from tuner.errors import UsageError
from tuner.wording import program

if TYPE_CHECKING:
    from tuner.cluster.jobs import Jobs
    from tuner.spec.code import NamedCode


@options.command(
    "Cluster",
    1,
    "tuner submit digits --storage /shared/results --address http://HEAD:8265",
    "tuner submit my_search.yaml --gpus 1 --storage s3://BUCKET/results --no-wait",
    "tuner submit --resume digits --storage /shared/results",
)
@options.optional_spec
@click.option(
    "--resume", metavar="NAME", help="Go on with this experiment instead of starting a new one."
)
@click.option("--no-wait", is_flag=True, help="Print the job's id and return at once.")
@options.trust
@options.wait_for_resources
@options.dashboard
def submit(
    like: str | None,
    resume: str | None,
    no_wait: bool,
    trust: bool,
    wait_for_resources: float | None,
    address: str,
    **flags: Any,
) -> int:
    """Run EXPERIMENT as a job on a cluster.

    EXPERIMENT and KEY=VALUE are those of `tuner run`.

    It sends the files in this folder along, prints the job's id, follows the log until the search
    has ended, and exits with the search's code. After Ctrl-C the job goes on.
    """
    from tuner.cluster.jobs import connected, entry, refuse_relative
    from tuner.places import default_storage, is_url, local

    sources = (like, resume, flags["command"])
    experiment, assignments = named_experiment({**flags, "like": like, "resume": resume})
    if (resume and (like or flags["command"])) or not (experiment or any(sources)):
        raise UsageError("give one of EXPERIMENT, --command TEXT, --like NAME and --resume NAME")
    directory = Path.cwd()
    storage = flags["storage"] or default_storage()
    storage = storage if is_url(storage) else str(Path(storage).expanduser())
    refuse_relative(storage)
    if resume:
        arguments = ["resume", resume]
    elif like:
        arguments = ["run", "--like", like]
    else:
        trust |= _check(experiment, assignments, flags, trust=trust)
        arguments = ["run", *([entry(experiment, directory)] if experiment else ())]
    arguments += [f"--command={flags['command']}"] if flags["command"] else []
    arguments += options.assignments_of({**flags, "storage": None, "notify": None})
    arguments += [*assignments, f"--storage={storage}"]
    arguments += [f"--notify={target}" for target in flags["notify"]]
    if trust:
        arguments.append("--trust")
    if wait_for_resources is not None:
        arguments.append(f"--wait-for-resources={wait_for_resources:g}s")
    with connected(address) as cluster:
        job_id = cluster.submit(arguments, directory=directory, storage=local(storage))
        click.echo(job_id)
        return 0 if no_wait else follow_job(cluster, job_id, address)


def _check(
    experiment: str | None, assignments: Sequence[str], flags: dict[str, Any], *, trust: bool
) -> bool:
    """Whether a recorded experiment names code, which has been admitted.

    Raises here what the cluster would raise, except what only it knows.
    """
    from tuner.experiment.resolve import resolve

    code_named: list[NamedCode] = []

    def admit_here(code: Sequence[NamedCode], folder: Path) -> None:
        admit(code, folder, trust=trust)
        code_named.extend(code)

    changes = [*options.assignments_of({**flags, "name": None, "storage": None}), *assignments]
    resolve(experiment, changes, command=flags["command"], admit=admit_here)
    return bool(code_named)


@options.command("Cluster", 2)
@options.dashboard
@options.as_json
def jobs(address: str, as_json: bool) -> None:
    """List the jobs on a cluster, running and ended."""
    from tuner.cluster.jobs import connected
    from tuner.reporting.tables import jobs_table

    with connected(address) as cluster:
        listed = cluster.all()
    shown = [asdict(job) for job in listed]
    click.echo(json_text(shown) if as_json else jobs_table(listed, now=time.time()))


@options.command("Cluster", 3)
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


def follow_job(cluster: Jobs, job_id: str, address: str) -> int:
    """Print the job's log to stderr until it ends; the search's exit code, 130 after Ctrl-C."""
    try:
        job = cluster.follow(
            job_id, lambda text: click.echo(click.unstyle(text), nl=False, err=True)
        )
    except KeyboardInterrupt:
        follow = f"{program()} logs --follow"
        end = f"{program()} stop"
        which = f"{shlex.quote(job_id)} --address {shlex.quote(address)}"
        text = f"the job goes on; follow it: {follow} {which}; end it: {end} {which}"
        click.echo(f"\n{text}", err=True)
        return 130
    if job.code is None and job.exit_code:
        click.echo(f"job {job_id} {job.status.lower()}: {job.message}", err=True)
    return job.exit_code


@options.command("Cluster", 4)
@options.job
@options.dashboard
def stop(job_id: str, address: str) -> None:
    """Stop job ID; its search can be resumed."""
    from tuner.cluster.jobs import connected

    with connected(address) as cluster:
        job = cluster.stop(job_id)
    go_on = f"{program()} submit --resume NAME --address {shlex.quote(address)}"
    click.echo(f"{job.status.lower()}; go on with: {go_on}")
