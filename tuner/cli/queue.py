"""tuner queue."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.outcome import SOME_FAILED
from tuner.cli.printing import format_json, warn
from tuner.cluster import LOCAL
from tuner.errors import UsageError
from tuner.wording import clean_text, format_rows, format_time

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results
    from tuner.search.preparation import Plan
    from tuner.service.queue.entries import Entry, Queue


@options.group(
    "Search",
    4,
    "tuner queue add digits --num-samples 50",
    "tuner queue add my_search.yaml --user bob",
    "tuner queue run --at-once 2 --share bob=2",
    "tuner queue ls",
)
def queue() -> None:
    """Keep searches waiting, and run several at once.

    The queue lies in the storage: `tuner queue add` puts a search into it, and `tuner queue run`,
    on one machine or on several, runs what is there as soon as it has room.
    """


_user = click.option(
    "--user", metavar="NAME", help="The user whose search it is.  [default: you]"
)


@queue.command()
@options.spec
@_user
@options.trust
def add(user: str | None, trust: bool, **flags: Any) -> None:
    """Put a search of EXPERIMENT into the queue.

    The arguments are those of `tuner run`. The spec is checked now and stored, so later changes
    of its file do not matter; code of your own is imported when the search runs, from this
    directory. With an --address other than local, nothing is checked against this machine.
    """
    from tuner.cli.validate import prepare_search

    waiting = _queue(flags["storage"])
    paths = list(sys.path)
    plan, _ = prepare_search(flags, trust=trust)
    is_named = flags["name"] or any(
        each.startswith("name=") for each in flags["assignments"]
    )
    paths = [path for path in sys.path if path not in (*paths, os.getcwd())]
    click.echo(waiting.add(_build_entry(plan, user, paths), is_named=bool(is_named)))


@queue.command()
@options.count("--top", "K", default=3, help="Retrain the K best trials.")
@options.count(
    "--seeds", "N", default=5, help="Retrain each of them with N fresh seeds."
)
@_user
@options.trust
@options.experiment
def confirm(
    results: Results, top: int, seeds: int, user: str | None, trust: bool
) -> None:
    """Put the confirmation of NAME into the queue: see `tuner confirm`."""
    from tuner.cli.consent import admit_experiment
    from tuner.search.retraining import prepare_confirmation

    admit_experiment(results, trust=trust, trains_only=True)
    plan = prepare_confirmation(results, top=top, seeds=seeds)
    click.echo(_queue(results.files.storage).add(_build_entry(plan, user)))


@queue.command()
@options.storage_and_json
def ls(storage: str | None, as_json: bool) -> None:
    """List the searches in the queue, the oldest first."""
    statuses = _queue(storage).list_statuses()
    if as_json:
        click.echo(format_json([status.as_dict() for status in statuses]))
        return
    rows = [["NAME", "USER", "STATUS", "ADDED", ""]]
    for status in statuses:
        entry = status.entry
        reason = status.ended.reason if status.ended else ""
        cells = (
            entry.name,
            entry.user,
            status.status,
            format_time(entry.added),
            reason,
        )
        rows.append([*map(clean_text, cells)])
    click.echo("\n".join(format_rows(rows)) if statuses else "the queue is empty")


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME ...")
@options.storage
def rm(names: tuple[str, ...], storage: str | None) -> None:
    """Take searches out of the queue; what they have recorded stays.

    A search that is running is refused.
    """
    waiting = _queue(storage)
    for name in names:
        waiting.remove(name, warn=warn)
        click.echo(f"removed {clean_text(name)} from the queue")


@queue.command()
@options.count("--at-once", "N", default=1, help="Run at most N searches at once.")
@click.option(
    "--share",
    multiple=True,
    metavar="USER=N",
    help="Give this user N times as much as each other user. May be given several times.",
)
@click.option(
    "--stay", is_flag=True, help="Wait for more searches when the queue is empty."
)
@options.address
@options.storage
def run(
    at_once: int, share: tuple[str, ...], stay: bool, address: str, storage: str | None
) -> int:
    """Run the searches in the queue.

    Users share this machine, or the cluster at --address: each one's searches run as many trials
    at a time as those of the others, unless --share says otherwise. Ctrl-C ends the searches; the
    next `tuner queue run` goes on with them.
    """
    from tuner.cluster import connect as cluster
    from tuner.service.queue.runner import Runner, Terms
    from tuner.service.queue.shares import measure_capacity

    terms = Terms(at_once, dict(map(_parse_weight, share)), address)
    runner = Runner(
        _queue(storage),
        terms,
        capacity=lambda gpus: measure_capacity(address, gpus=gpus),
        notify=warn,
    )
    with nullcontext() if address == LOCAL else cluster.connect(address):
        runner.run(stay=stay)
    return SOME_FAILED if runner.failed else 0


def _build_entry(plan: Plan, user: str | None, paths: Sequence[str] = ()) -> Entry:
    from tuner.experiment.owner import find_user_name
    from tuner.service.queue.entries import build_entry

    user = user or find_user_name() or str(os.getuid())
    return build_entry(plan.spec, user=user, directory=os.getcwd(), paths=paths)


def _queue(storage: str | None) -> Queue:
    from tuner.service.queue.entries import Queue

    return Queue(storage)


def _parse_weight(text: str) -> tuple[str, float]:
    user, _, weight = text.partition("=")
    try:
        number = float(weight)
    except ValueError:
        number = 0
    if not user or not 0 < number < float("inf"):
        raise UsageError(f"--share must be USER=N with N above 0, got {text!r}")
    return user, number
