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

    directory = Path.cwd()
    changes = [] if experiment is None else [experiment, *assignments]
    if (resume is None and experiment is None) or (resume and any("=" not in c for c in changes)):
        raise UsageError("give either EXPERIMENT or --resume NAME")
    wait = [] if wait_for_resources is None else [f"--wait-for-resources={wait_for_resources:g}s"]
    storage = flags["storage"] or default_storage()
    storage = storage if is_url(storage) else str(Path(storage).expanduser())
    refuse_relative(storage)
    if resume is not None:
        arguments = ["resume", resume, *changes, "--storage", storage]
    else:
        assert experiment is not None
        _check(experiment, assignments, flags, yes=yes)
        set_by_flags = options.assignments_of({**flags, "storage": storage})
        named = {"--search": flags["strategy"], "--scheduler": flags["scheduler"]}
        chosen = [f"{option}={name}" for option, name in named.items() if name]
        arguments = ["run", entry(experiment, directory), *set_by_flags, *assignments, *chosen]
    with connected(address) as cluster:
        job_id = cluster.submit([*arguments, *wait], directory=directory, storage=local(storage))
        click.echo(job_id)
        return 0 if no_wait else follow_job(cluster, job_id, address)


def _check(
    experiment: str, assignments: tuple[str, ...], flags: dict[str, Any], *, yes: bool
) -> None:
    """Refuse here what the cluster would refuse, but for what only it knows."""
    from tuner.planning.resolve import resolve

    changes = [*options.assignments_of({**flags, "name": None, "storage": None}), *assignments]
    admit = partial(admit_file, yes=yes)
    resolve(
        experiment,
        changes,
        strategy=flags["strategy"],
        scheduler=flags["scheduler"],
        admit=admit,
    )
