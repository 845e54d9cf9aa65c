"""Brings the data set of a search to the nodes of a cluster: downloaded by one, copied to the rest.

Its file goes from node to node in chunks. A node gives it to one other at a time, and who has got
it gives it on: the number of those that have it doubles with each round, and of the file a few
chunks are in memory at most.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tuner.classifier.catalog import DATASETS
from tuner.classifier.datasets._archive import Archive
from tuner.classifier.datasets._dataset import data_folder
from tuner.classifier.settings import ClassifierSettings
from tuner.cluster.joined.nodes import Node
from tuner.cluster.joined.run_on_nodes import on_each, problem_of, remote_on
from tuner.errors import DataError
from tuner.space.domains import Domain
from tuner.spec.experiment import ExperimentSpec
from tuner.wording import amount_of

_DOWNLOAD_S = 3600.0
_COPY_S = 900.0
_TRIES = 3  # nodes that are asked to download, before the driver's own; or to give
_AHEAD = 2  # chunks that wait in a giver's object store

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Need:
    """An archive that trials read, and the `data_dir` of a spec, which each node has its own of."""

    archive: Archive
    data_dir: str | None

    @property
    def folder(self) -> Path:
        """On a node: where it lies there, or is to."""
        return data_folder(self.data_dir)


def needs_of(spec: ExperimentSpec) -> list[Need]:
    """What the trials of `spec` read of what can be downloaded; not known of others' trainables."""
    if not spec.ships:
        return []
    usual = ClassifierSettings.model_fields["dataset"].default
    named = {**spec.training, **spec.search.space}.get("dataset", usual)
    names = named.extremes() if isinstance(named, Domain) else (named,)
    archives = [DATASETS[name].archive for name in names]
    data_dir = spec.training.get("data_dir")
    folder = None if data_dir is None else str(data_dir)
    return [Need(archive, folder) for archive in archives if archive]


def bring(nodes: Sequence[Node], need: Need, *, here: str, say: Say) -> None:
    """Have the data set in the data folder of each of `nodes` that offers CPUs.

    Who lacks it gets it from a node that has its archive, be that the driver's own, whose id is
    `here`. Where none has, the first of the others that can downloads it, or else the driver's.
    `say` is told of what is done, and of nodes that could not get it: these are left to download
    it themselves. Raises DataError where no node has it and none can download it.
    """
    holding, lacking = _asked(nodes, need)
    if lacking and not holding:
        own = [node for node in nodes if node.node_id == here and node not in lacking]
        _download([*lacking[:_TRIES], *own], need, say)
        holding, lacking = _asked(nodes, need)
    if lacking and holding:
        to = amount_of(len(lacking), "node")
        say(f"{need.archive.title} is copied from {holding[0].address} to {to} that lack it")
        _spread(holding, lacking, need, say)


def _asked(nodes: Sequence[Node], need: Need) -> tuple[list[Node], list[Node]]:
    """The nodes that can give the archive, and those that lack the data set and need it."""
    replies = on_each(nodes, look, need)
    holding = [reply.node for reply in replies if reply.value and reply.value[0]]
    lacking = [reply.node for reply in replies if reply.value and reply.value[1]]
    return holding, [node for node in lacking if node.cpus]


def _download(candidates: Sequence[Node], need: Need, say: Say) -> None:
    """Have the first of the candidates that can download the archive."""
    title, problem = need.archive.title, ""
    for node in candidates:
        say(f"{title} is on no node: {node.address} downloads it")
        [reply] = on_each([node], fetch, need, patience_s=_DOWNLOAD_S)
        if not reply.problem:
            return
        problem = f"{node.address}: {reply.problem}"
    raise DataError(f"no node has {title}, and none can download it; {problem}")


def _spread(holding: list[Node], lacking: list[Node], need: Need, say: Say) -> None:
    """Copy the archive to all that lack it, in rounds: each that has it gives it to one."""
    while lacking:
        takers, lacking = lacking[: len(holding)], lacking[len(holding) :]
        givers = {taker.node_id: [giver] for taker, giver in zip(takers, holding, strict=False)}
        for reply in on_each(takers, take, need, givers, patience_s=_COPY_S):
            if reply.problem:
                title, address = need.archive.title, reply.node.address
                say(f"{title} could not be copied to {address}: {reply.problem}")
            else:
                holding = [*holding, reply.node]


def greet(new: Sequence[Node], others: Sequence[Node], need: Need) -> None:
    """Begin to bring the archive to nodes that have joined, from one of the `others`.

    It is not waited for: a trial there that is quicker downloads the archive.
    """
    can_give = [node for node in others if node.cpus]
    for node in new:
        if node.cpus and can_give:
            givers = random.sample(can_give, min(_TRIES, len(can_give)))
            remote_on(node, take).remote(need, {node.node_id: givers})


def look(need: Need) -> tuple[bool, bool]:
    """On a node: whether it can give the archive, and whether it lacks the data set."""
    return need.archive.is_in(need.folder), need.archive.is_missing(need.folder)


def fetch(need: Need) -> None:
    """On a node: download the archive."""
    need.archive.fetch(need.folder)


def take(need: Need, givers: Mapping[str, Sequence[Node]]) -> None:
    """On a node: get the archive from the first that can of those whom `givers` has for its id."""
    import ray

    problems = []
    for giver in givers[ray.get_runtime_context().get_node_id()]:
        try:
            origin = f"what {giver.address} has as {need.archive.name}"
            need.archive.write(need.folder, partial(_received, giver, need), origin=origin)
            return
        except Exception as error:  # whatever keeps that one from giving
            problems.append(f"{giver.address}: {problem_of(error)}")
    raise DataError("; ".join(problems))


def _received(giver: Node, need: Need) -> Iterator[bytes]:
    """The archive of another node, chunk by chunk."""
    import ray

    ahead = {"_generator_backpressure_num_objects": _AHEAD}
    for chunk in remote_on(giver, give, num_returns="streaming", **ahead).remote(need):
        yield ray.get(chunk)


def give(need: Need) -> Iterator[bytes]:
    """On a node: its archive in chunks."""
    yield from need.archive.chunks(need.folder)
