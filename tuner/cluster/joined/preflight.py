"""Asks every node of a cluster whether a search can run there, before there is a folder.

Whether a storage is shared cannot be told from its path, nor from a URL whether a node may use it:
a file is written to it here, which a task on each node must find and answer with one of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from tuner.cluster.joined.nodes import Node
from tuner.cluster.joined.run_on_nodes import on_each
from tuner.errors import UsageError
from tuner.places import is_url
from tuner.record.remote.objects import Objects
from tuner.wording import amount_of, program

_MOST_TOLD = 5  # nodes, in a message
_BY_DRIVER = "driver"  # the file that is written here

_FOR_FOLDER = (
    "Give --storage a folder that each node and this machine mount (NFS, EFS, Lustre, Filestore), "
    "or an object store (s3://bucket/folder)"
)
_FOR_URL = "Give each node what it needs to read and write there (a role, a key, tuner[s3])"

MISSING = "does not see what is written there from here"
NOT_WRITABLE = "cannot write there"


def refuse_unfit(nodes: Sequence[Node], storage: str, trainable: str) -> None:
    """Make sure that each of `nodes` shares the storage and finds the trainable's module.

    Raises UsageError with every node that does not, the reason and what to do.
    """
    module = trainable.partition(":")[0]
    with token_in(storage) as token:
        replies = on_each(nodes, look, str(token), module)
    unreached = {reply.node.address: reply.problem for reply in replies if reply.problem}
    apart = {r.node.address: r.value[0] for r in replies if r.value and r.value[0]}
    without = {r.node.address: f"no module {module}" for r in replies if r.value and not r.value[1]}
    told = []
    if unreached:
        do = f"look at it with `{program()} doctor --address`"
        told.append(f"{_listed(unreached)} cannot run trials: {do}")
    if apart:
        told.append(
            f"the storage {storage} is not shared by all nodes: {_listed(apart)}. "
            f"{_FOR_URL if is_url(storage) else _FOR_FOLDER}, or run on one node"
        )
    if without:
        told.append(
            f"the trainable {trainable} is not found on {_listed(without)}: start {program()} in "
            "the folder that has its module, which is then sent to the nodes, or install it there"
        )
    if told:
        raise UsageError("\n".join(told))


def _listed(problems: dict[str, str]) -> str:
    """The nodes with their problems, alike ones together."""
    alike: dict[str, list[str]] = {}
    for address, problem in problems.items():
        alike.setdefault(problem, []).append(address)
    told = []
    for problem, addresses in alike.items():
        names = ", ".join(addresses[:_MOST_TOLD])
        more = len(addresses) - _MOST_TOLD
        told.append(f"{names}{f' and {more} more' if more > 0 else ''} ({problem})")
    return f"{amount_of(len(problems), 'node')}, {'; '.join(told)}"


@contextmanager
def token_in(storage: str | Path) -> Iterator[str | Path]:
    """A new folder in the storage, or above it where it is yet to be made, with a file in it.

    Raises UsageError where it cannot be written.
    """
    name = f".tuner-shared-{uuid4().hex}"
    if is_url(storage):
        objects = Objects(str(storage))
        try:
            objects.write(f"{name}/{_BY_DRIVER}", name.encode())
        except OSError as error:
            raise UsageError(f"cannot write to {objects.url}: {error.strerror}") from error
        try:
            yield f"{objects.url}/{name}"
        finally:
            with suppress(OSError):
                objects.remove(name)
        return
    there = Path(storage).expanduser().resolve()
    while not there.exists():
        there = there.parent
    token = there / name
    try:
        token.mkdir()
        (token / _BY_DRIVER).write_text(name)
    except OSError as error:
        raise UsageError(f"cannot write to {there}: {error.strerror}") from error
    try:
        yield token
    finally:
        shutil.rmtree(token, ignore_errors=True)


def look(token: str, module: str) -> tuple[str, bool]:
    """On a node: why it does not share the token's storage ("" if it does), and has it the module.

    The module is looked for, not run; the packages that it lies in are.
    """
    apart = _apart_of_store(token) if is_url(token) else _apart(Path(token))
    return apart, _is_found(module)


def _apart(token: Path) -> str:
    try:
        if (token / _BY_DRIVER).read_text() != token.name:
            return MISSING
    except OSError:
        return MISSING
    try:
        (token / uuid4().hex).touch()
    except OSError as error:
        return f"{NOT_WRITABLE}: {error.strerror}"
    return ""


def _apart_of_store(token: str) -> str:
    try:
        objects = Objects(token)
        if objects.read(_BY_DRIVER).decode(errors="replace") != token.rpartition("/")[2]:
            return MISSING
    except UsageError as error:
        return str(error)
    except OSError as error:
        return f"{MISSING}: {error.strerror}"
    try:
        objects.write(uuid4().hex, b"")
    except OSError as error:
        return f"{NOT_WRITABLE}: {error.strerror}"
    return ""


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
