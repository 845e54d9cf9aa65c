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
from tuner.cli.printing import format_json
from tuner.cli.validate import split_arguments
from tuner.errors import UsageError
from tuner.wording import find_program, format_duration, format_table, format_time

if TYPE_CHECKING:
    from tuner.cluster.jobs import Job, Jobs
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
    "--resume",
    metavar="NAME",
    help="Go on with this experiment instead of starting a new one.",
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
    from tuner.cluster.jobs import check_storage, open_jobs, relativize_experiment
    from tuner.places import find_default_storage, find_local_folder, is_url

    sources = (like, resume, flags["command"])
    experiment, assignments = split_arguments({**flags, "like": like, "resume": resume})
    if (resume and (like or flags["command"])) or not (experiment or any(sources)):
        raise UsageError(
            "give one of EXPERIMENT, --command TEXT, --like NAME and --resume NAME"
        )
    directory = Path.cwd()
    storage = flags["storage"] or find_default_storage()
    storage = storage if is_url(storage) else str(Path(storage).expanduser())
    check_storage(storage)
    if resume:
        arguments = ["resume", resume]
    elif like:
        arguments = ["run", "--like", like]
    else:
        trust |= _check(experiment, assignments, flags, trust=trust)
        arguments = [
            "run",
            *([relativize_experiment(experiment, directory)] if experiment else ()),
        ]
    arguments += [f"--command={flags['command']}"] if flags["command"] else []
    arguments += options.list_assignments({**flags, "storage": None, "notify": None})
    arguments += [*assignments, f"--storage={storage}"]
    arguments += [f"--notify={target}" for target in flags["notify"]]
    if trust:
        arguments.append("--trust")
    if wait_for_resources is not None:
        arguments.append(f"--wait-for-resources={wait_for_resources:g}s")
    with open_jobs(address) as cluster:
        job_id = cluster.submit(
            arguments, directory=directory, storage=find_local_folder(storage)
        )
        click.echo(job_id)
        return 0 if no_wait else follow_job(cluster, job_id, address)


def _check(
    experiment: str | None,
    assignments: Sequence[str],
    flags: dict[str, Any],
    *,
    trust: bool,
) -> bool:
    """Whether a recorded experiment names code, which has been admitted.

    Raises here what the cluster would raise, except what only it knows.
    """
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.resolve import resolve
    from tuner.spec.validation import validate

    code_named: list[NamedCode] = []

    def admit_code(code: Sequence[NamedCode], folder: Path) -> None:
        admit(code, folder, trust=trust)
        code_named.extend(code)

    changes = [
        *options.list_assignments({**flags, "name": None, "storage": None}),
        *assignments,
    ]
    resolved = resolve(experiment, changes, command=flags["command"], admit=admit_code)
    spec = validate(resolved.raw, source=resolved.title)
    ExperimentFolder(spec.folder).refuse_taken()
    return bool(code_named)


@options.command("Cluster", 2)
@options.dashboard
@options.as_json
def jobs(address: str, as_json: bool) -> None:
    """List the jobs on a cluster, running and ended."""
    from tuner.cluster.jobs import open_jobs

    with open_jobs(address) as cluster:
        listed = cluster.list_jobs()
    shown = [asdict(job) for job in listed]
    click.echo(format_json(shown) if as_json else _format_jobs(listed, now=time.time()))


def _format_jobs(jobs: Sequence[Job], *, now: float) -> str:
    """One line for each job. now: seconds since the epoch."""
    if not jobs:
        return "no jobs yet; start one with: tuner submit digits"
    rows = []
    for job in jobs:
        started = took = ""
        if job.started is not None:
            started = format_time(job.started)
            took = format_duration((job.ended or now) - job.started)
        rows.append((job.job_id, job.status.lower(), started, took, job.command))
    return format_table(("ID", "STATUS", "STARTED", "TOOK", "COMMAND"), rows)


@options.command("Cluster", 3)
@options.job
@click.option(
    "--follow",
    is_flag=True,
    help="Keep showing it until the job ends; exit with its code.",
)
@options.dashboard
def logs(job_id: str, follow: bool, address: str) -> int:
    """Show the log of job ID."""
    from tuner.cluster.jobs import open_jobs

    with open_jobs(address) as cluster:
        if follow:
            cluster.find_job(job_id)
            return follow_job(cluster, job_id, address)
        click.echo(click.unstyle(cluster.read_log(job_id)), nl=False)
    return 0


def follow_job(cluster: Jobs, job_id: str, address: str) -> int:
    """Print the job's log to stderr until it ends; the search's exit code, 130 after Ctrl-C."""
    try:
        job = cluster.follow_log(
            job_id, lambda text: click.echo(click.unstyle(text), nl=False, err=True)
        )
    except KeyboardInterrupt:
        follow = f"{find_program()} logs --follow"
        end = f"{find_program()} stop"
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
    from tuner.cluster.jobs import open_jobs

    with open_jobs(address) as cluster:
        job = cluster.stop(job_id)
    go_on = f"{find_program()} submit --resume NAME --address {shlex.quote(address)}"
    click.echo(f"{job.status.lower()}; go on with: {go_on}")
