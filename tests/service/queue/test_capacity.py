"""What a machine has to share; no card is needed to count them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tuner.cluster.joined import nodes
from tuner.places import LOCAL
from tuner.service.queue.capacity import capacity_of, gpus_here
from tuner.spec import quotas
from tuner.trial.shared_gpus import VISIBLE


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(quotas, "usable_cpus", lambda: 8)
    monkeypatch.delenv(VISIBLE, raising=False)
    gpus_here.cache_clear()
    yield
    gpus_here.cache_clear()


def test_this_machine_has_its_cpus_and_if_they_are_asked_for_its_gpus() -> None:
    assert capacity_of(LOCAL, gpus=True) == (8, (1, 1, 1, 1))
    assert capacity_of(LOCAL, gpus=False) == (8, ())


@pytest.mark.parametrize(
    ("visible", "count", "names"),
    [
        (None, 4, ("0", "1", "2", "3")),
        ("2,GPU-7f", 2, ("2", "GPU-7f")),
        ("0,1,9", 2, ("0", "1")),  # CUDA ends at the first that is not there
        ("", 0, ()),
    ],
)
def test_gpus_have_the_names_by_which_cuda_shows_them(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert gpus_here() == names


def test_a_cluster_has_what_its_nodes_have(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [nodes.Node("1", "10.0.0.1", cpus=4, gpus=1), nodes.Node("2", "10.0.0.2", cpus=2)]
    monkeypatch.setattr(nodes, "list_nodes", lambda: made)
    assert capacity_of("auto", gpus=False) == (6, (1,))
