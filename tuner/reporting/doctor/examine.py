"""What would break a search here, and what is worth knowing before one: checks without a Ray.

A cluster's are asked of the cluster. Nothing is changed but a file of 4 KiB, written to the storage
and removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tuner.errors import UsageError
from tuner.experiment.events import COMPLETED, INTERRUPTED
from tuner.experiment.results.listing import list_experiments
from tuner.experiment.storage import storage_folder
from tuner.places import default_storage, is_url, shown
from tuner.reporting.doctor import cluster, exposure, machine, versions
from tuner.reporting.doctor import storage as storages
from tuner.reporting.doctor.finding import Finding
from tuner.wording import program


def examine(storage: str | None = None, address: str | None = None) -> list[Finding]:
    """All findings, of this machine and of the cluster at `address` if one is given.

    `storage` defaults to $TUNER_STORAGE, else ./results. Starts no Ray.
    """
    place = storage or default_storage()
    return [
        *versions.check(),
        *machine.check(),
        *storages.check(place if is_url(place) else storage_folder(storage)),
        *exposure.check(),
        *(cluster.check(address, place) if address else ()),
        *_experiments(storage),
    ]


def is_broken(findings: list[Finding]) -> bool:
    """Whether any of it would break a search."""
    return any(finding.level == "broken" for finding in findings)


def _experiments(storage: str | None) -> Iterator[Finding]:
    """Those that are not simply completed, and how many are."""
    try:
        listed = list_experiments(storage)
    except UsageError as error:  # of a store that cannot be read
        yield Finding("experiments", "listed", str(error), "broken", "see what storage says above")
        return
    completed = sum(entry.status == COMPLETED for entry in listed)
    yield Finding("experiments", "completed", str(completed))
    for entry in listed:
        name = entry.name
        if entry.problem:
            advice = "its files are as they were; tuner changes none of a damaged experiment"
            yield Finding("experiments", name, f"damaged: {entry.problem}", "warning", advice)
        elif entry.status == INTERRUPTED:
            go_on = f"{program()} resume {shlex.quote(shown(entry.folder))}"
            yield Finding("experiments", name, f"interrupted; go on with: {go_on}")
        elif entry.status != COMPLETED:
            yield Finding("experiments", name, entry.status)
