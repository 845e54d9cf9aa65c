"""tuner submit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from tuner.cli import options
from tuner.cli.consent import admit_file
from tuner.cli.logs import follow_job
from tuner.errors import UsageError


@click.command(
    cls=options.Command,
    section="Cluster",
    place=1,
    examples=[
        "tuner submit digits --storage /shared/results --address http://HEAD:8265",
        "tuner submit my_search.yaml --gpus 1 --storage s3://BUCKET/results --no-wait",
        "tuner submit --resume digits --storage /shared/results",
    ],
)
@options.optional_spec
@click.option(
    "--resume", metavar="NAME", help="Go on with this experiment instead of starting a new one."
)
@click.option("--no-wait", is_flag=True, help="Print the job's id and return at once.")
@options.yes
@options.wait_for_resources
@options.dashboard
def submit(
    experiment: str | None,
    assignments: tuple[str, ...],
    like: str | None,
    resume: str | None,
    no_wait: bool,
    yes: bool,
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

    known_there = [name for name in (like, resume) if name is not None]
    has_command = flags["command"] is not None
    is_named = experiment is not None and not ((known_there or has_command) and "=" in experiment)
    named = 1 if has_command and not known_there else len(known_there) + is_named
    if named != 1:
        raise UsageError("give one of EXPERIMENT, --command TEXT, --like NAME and --resume NAME")
    directory = Path.cwd()
    changes = [] if experiment is None else [experiment, *assignments]
    storage = flags["storage"] or default_storage()
    storage = storage if is_url(storage) else str(Path(storage).expanduser())
    refuse_relative(storage)
    if resume is not None:
        arguments = ["resume", resume, *_set_on_resume(flags), *changes, "--storage", storage]
    elif like is not None:
        set_by_flags = _set_by({**flags, "storage": None})
        arguments = ["run", "--like", like, *set_by_flags, *changes, "--storage", storage]
    else:
        entries = [entry(changes.pop(0), directory)] if is_named else []
        _check(experiment if is_named else None, changes, flags, yes=yes)
        set_by_flags = _set_by({**flags, "storage": storage})
        arguments = ["run", *entries, *set_by_flags, *changes]
    if wait_for_resources is not None:
        arguments.append(f"--wait-for-resources={wait_for_resources:g}s")
    with connected(address) as cluster:
        job_id = cluster.submit(arguments, directory=directory, storage=local(storage))
        click.echo(job_id)
        return 0 if no_wait else follow_job(cluster, job_id, address)


def _set_by(flags: dict[str, Any]) -> list[str]:
    """What has `tuner run` do there what the flags ask for."""
    named = {"--search": flags["strategy"], "--scheduler": flags["scheduler"]}
    named["--command"] = flags["command"]
    chosen = [f"{option}={name}" for option, name in named.items() if name]
    return [*chosen, *options.assignments_of(flags)]


def _set_on_resume(flags: dict[str, Any]) -> list[str]:
    """The same for `tuner resume`, which says of each setting that it cannot change why."""
    named = {"search.strategy": flags["strategy"], "scheduler.name": flags["scheduler"]}
    named["trainable.command"] = flags["command"]
    chosen = [f"{path}={name}" for path, name in named.items() if name]
    notified = [f"--notify={target}" for target in flags["notify"]]
    others = options.assignments_of({**flags, "storage": None, "notify": None})
    return [*others, *chosen, *notified]


def _check(
    experiment: str | None, assignments: list[str], flags: dict[str, Any], *, yes: bool
) -> None:
    """Refuse here what the cluster would refuse, but for what only it knows."""
    from tuner.planning.resolve import resolve

    changes = [*options.assignments_of({**flags, "name": None, "storage": None}), *assignments]
    admit = partial(admit_file, yes=yes)
    resolve(
        experiment,
        changes,
        command=flags["command"],
        strategy=flags["strategy"],
        scheduler=flags["scheduler"],
        admit=admit,
    )
