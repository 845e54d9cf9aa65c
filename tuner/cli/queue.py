"""tuner queue."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from typing import Any

import click

from tuner.cli import options
from tuner.cli.printing import SOME_FAILED, json_text
from tuner.errors import UsageError
from tuner.places import LOCAL
from tuner.wording import aligned, printable


@click.group(cls=options.Group, section="Search", place=4)
def queue() -> None:
    """Let several searches wait, and run some at once.

    Entries are files in the storage. Runners, on one machine or several, take them from there; a
    search that is added starts as soon as one has room for it.
    """


@queue.command()
@options.spec
@click.option("--user", metavar="NAME", help="Whose search it is.  [default: you]")
@options.yes
def add(
    experiment: str,
    assignments: tuple[str, ...],
    user: str | None,
    yes: bool,
    address: str,
    **flags: Any,
) -> int:
    """Let a search of EXPERIMENT wait in the queue.

    The options are those of `tuner run`. It is checked at once, and runs as it is now, whatever
    becomes of its file; code of your own is imported when it runs, from this directory. --address:
    not local where a runner of a cluster is to take it.
    """
    from tuner.cli.validate import resolve
    from tuner.places import default_storage
    from tuner.queue.entries import Queue, entry_of

    waiting = Queue(flags["storage"] or default_storage())
    paths = list(sys.path)
    spec, _ = resolve(experiment, assignments, address, flags, yes=yes)
    is_named = flags["name"] or any(each.startswith("name=") for each in assignments)
    entry = entry_of(
        spec,
        user=user or _this_user(),
        directory=os.getcwd(),
        paths=[path for path in sys.path if path not in (*paths, os.getcwd())],
    )
    name = waiting.add(entry, is_named=bool(is_named))
    click.echo(name)
    return 0


@queue.command()
@options.storage
@options.as_json
def ls(storage: str | None, as_json: bool) -> int:
    """List the entries of the queue, the oldest first."""
    from tuner.places import default_storage
    from tuner.queue.entries import Queue

    standings = Queue(storage or default_storage()).standings()
    if as_json:
        click.echo(json_text([one.as_dict() for one in standings]))
        return 0
    rows = [("NAME", "USER", "STATUS", "ADDED", "")]
    for one in standings:
        added = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.entry.added))
        reason = one.ended.reason if one.ended else ""
        rows.append((one.entry.name, one.entry.user, one.status, added, reason))
    cells = [[printable(cell) for cell in row] for row in rows]
    click.echo("\n".join(aligned(cells)) if standings else "the queue is empty")
    return 0


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME ...")
@options.storage
def rm(names: tuple[str, ...], storage: str | None) -> int:
    """Take entries out of the queue; their experiments stay.

    One that runs is refused.
    """
    from tuner.places import default_storage
    from tuner.queue.entries import Queue

    waiting = Queue(storage or default_storage())
    for name in names:
        waiting.remove(name, warn=_told)
        click.echo(f"removed {printable(name)} from the queue")
    return 0


@queue.command()
@click.option(
    "--at-once", type=click.IntRange(min=1), default=1, metavar="N", help="Searches.  [default: 1]"
)
@click.option("--share", multiple=True, metavar="USER=N", help="N times another user's share.")
@click.option("--stay", is_flag=True, help="Wait for more once the queue is empty.")
@options.address
@options.storage
def run(at_once: int, share: tuple[str, ...], stay: bool, address: str, storage: str | None) -> int:
    """Run what is in the queue, several searches at once if asked for.

    They share this machine, or the cluster at --address, by trials that run at a time: equally
    between users, or by --share. With Ctrl-C they end, and the next `tuner queue run` goes on with
    them.
    """
    from tuner.cluster import connect as cluster
    from tuner.places import default_storage
    from tuner.queue.entries import Queue
    from tuner.queue.runner import Runner, Terms, capacity_of

    terms = Terms(at_once, dict(map(_weight, share)), address)
    waiting = Queue(storage or default_storage())
    runner = Runner(waiting, terms, capacity=lambda: capacity_of(address), tell=_told)
    with nullcontext() if address == LOCAL else cluster.connect(address):
        runner.run(stay=stay)
    return SOME_FAILED if runner.failed else 0


def _this_user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user that its system does not know
        return str(os.getuid())


def _told(text: str) -> None:
    click.echo(printable(text), err=True)


def _weight(text: str) -> tuple[str, float]:
    user, _, weight = text.partition("=")
    try:
        number = float(weight)
    except ValueError:
        number = 0
    if not user or not 0 < number < float("inf"):
        raise UsageError(f"--share must be USER=N with N above 0, got {text!r}")
    return user, number
