"""Who may run how much: pure arithmetic, and what holds whatever is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.cluster.joined import nodes
from tuner.places import LOCAL
from tuner.service.queue.shares import (
    Amounts,
    Demand,
    Room,
    Waiting,
    capacity_of,
    divide,
    gpus_here,
    limits,
    next_to_start,
)
from tuner.spec import quotas
from tuner.trial.gpus import VISIBLE

ONE = Amounts(1)
MANY = 10**6


def demand(name: str, user: str = "ann", each: Amounts = ONE, **fields: int) -> Demand:
    return Demand(name, user, each, **{"wants": MANY, **fields})


def of(cpus: float, gpus: int = 0) -> Room:
    return Room(cpus, (1.0,) * gpus)


def divided(*demands: Demand, cpus: float, gpus: int = 0, **weights: float) -> dict[str, int]:
    return divide(demands, capacity=of(cpus, gpus), weights=weights)


def test_equals_share_equally_and_what_is_over_goes_to_the_first() -> None:
    assert divided(demand("a"), demand("b"), cpus=4) == {"a": 2, "b": 2}
    assert divided(demand("a"), demand("b"), demand("c"), cpus=8) == {"a": 3, "b": 3, "c": 2}


def test_users_share_by_weight_however_many_searches_each_has() -> None:
    both = demand("a"), demand("b"), demand("c", "bob")
    assert divided(*both, cpus=8) == {"a": 2, "b": 2, "c": 4}
    assert divided(*both, cpus=9, bob=2) == {"a": 2, "b": 1, "c": 6}


def test_what_one_does_not_want_goes_to_the_others() -> None:
    assert divided(demand("a", wants=1), demand("b"), cpus=6) == {"a": 1, "b": 5}
    assert divided(demand("a", wants=0), demand("b"), cpus=6) == {"a": 0, "b": 6}


def test_trials_of_several_cpus_count_by_their_size() -> None:
    assert divided(demand("a", each=Amounts(4)), demand("b"), cpus=8) == {"a": 1, "b": 4}


def test_of_cpus_and_gpus_the_scarcer_counts() -> None:
    on_gpu = demand("a", each=Amounts(1, 1))
    assert divided(on_gpu, demand("b"), cpus=8, gpus=2) == {"a": 2, "b": 6}


def test_each_has_one_at_least_where_all_can() -> None:
    heavy = divided(demand("a"), demand("b", "bob"), cpus=2, ann=100)
    assert heavy == {"a": 1, "b": 1}
    assert divided(demand("a"), demand("b", each=Amounts(2)), cpus=2) == {"a": 2, "b": 0}


def limited(
    *demands: Demand, cpus: float, gpus: int = 0, unused: Room | None = None
) -> dict[str, int]:
    capacity = of(cpus, gpus)
    return limits(demands, capacity=capacity, unused=unused or capacity, weights={})


def test_nobody_gets_what_another_still_holds() -> None:
    assert limited(demand("a", holds=4), demand("b"), cpus=4) == {"a": 2, "b": 0}
    assert limited(demand("a", holds=3), demand("b"), cpus=4) == {"a": 2, "b": 1}
    assert limited(demand("a", holds=2), demand("b", holds=1), cpus=4) == {"a": 2, "b": 2}


def test_what_one_gives_up_another_gets_at_once() -> None:
    assert limited(demand("b", holds=2), cpus=4) == {"b": 4}


def test_one_that_runs_keeps_a_trial_whatever_room_there_is() -> None:
    assert limited(demand("a", holds=2), demand("b", holds=2), cpus=1) == {"a": 1, "b": 1}


def test_a_share_needs_room_on_a_single_gpu() -> None:
    share = Amounts(1, 0.6)
    assert of(8, 2).fits(share) == 2
    assert of(8, 2).less(share).less(share).fits(Amounts(1, 0.6)) == 0
    assert divided(demand("a", each=share), cpus=8, gpus=2) == {"a": 2}


def test_a_whole_gpu_waits_while_shares_lie_on_each() -> None:
    shares = demand("a", each=Amounts(1, 0.5), wants=2, holds=2)
    whole = demand("b", "bob", each=Amounts(1, 1))
    spread, together = Room(8, (0.5, 0.5)), Room(8, (0.0, 1.0))
    assert limited(shares, whole, cpus=8, gpus=2, unused=spread) == {"a": 2, "b": 0}
    assert limited(shares, whole, cpus=8, gpus=2, unused=together) == {"a": 2, "b": 1}


AMOUNTS = st.builds(Amounts, st.sampled_from([0.5, 1, 2, 3]), st.sampled_from([0, 0.25, 0.5, 1, 2]))
USERS = st.sampled_from(["ann", "bob", "cy"])


@st.composite
def some_demands(draw: st.DrawFn) -> list[Demand]:
    count = draw(st.integers(1, 6))
    return [
        Demand(str(n), draw(USERS), draw(AMOUNTS), draw(st.integers(1, 20))) for n in range(count)
    ]


def left_of(capacity: Room, counts: Mapping[str, int], demands: list[Demand]) -> Room:
    for demand in sorted(demands, key=lambda d: -d.each.gpus):
        capacity = capacity.less(demand.each, counts[demand.name])
    return capacity


def least(room: Room) -> float:
    return min(room.cpus, *room.gpus, 0)


@given(some_demands(), st.integers(1, 24), st.integers(0, 8), st.floats(0.5, 4))
def test_whatever_is_asked_for_it_fits_and_no_place_stays_free_that_one_could_use(
    demands: list[Demand], cpus: int, gpus: int, weight: float
) -> None:
    capacity = of(cpus, gpus)
    due = divide(demands, capacity=capacity, weights={"ann": weight})
    left = left_of(capacity, due, demands)
    assert least(left) >= -1e-6
    assert not [d for d in demands if due[d.name] < d.wants and left.fits(d.each)]


@given(some_demands(), st.integers(1, 24), st.integers(0, 8), st.data())
def test_searches_that_come_and_go_never_hold_more_than_there_is(
    demands: list[Demand], cpus: int, gpus: int, data: st.DataObject
) -> None:
    """What may run counts for what was granted before until trials end, as in a runner."""
    capacity, holds = of(cpus, gpus), {d.name: 0 for d in demands}
    for _ in range(5):
        present = [
            Demand(d.name, d.user, d.each, d.wants, holds[d.name])
            for d in demands
            if holds[d.name] or data.draw(st.booleans())
        ]
        for name, limit in limits(present, capacity=capacity, unused=capacity, weights={}).items():
            still = data.draw(st.integers(min(limit, holds[name]), holds[name]))
            holds[name] = max(still, limit)  # trials that run go on to their end
        assert least(left_of(capacity, holds, demands)) >= -1e-6
        gone = data.draw(st.sampled_from(demands)).name
        holds[gone] = 0


def waiting(name: str, user: str = "ann", added: float = 0, each: Amounts = ONE) -> Waiting:
    return Waiting(name, user, added, each)


def turn(*entries: Waiting, running: tuple[Demand, ...] = (), **fields: object) -> str | None:
    given_fields = {"at_once": 2, "capacity": of(4, 2), "weights": {}, **fields}
    first = next_to_start(entries, running, **given_fields)  # type: ignore[arg-type]
    return first and first.name


def test_the_oldest_comes_first_and_at_most_so_many_run() -> None:
    assert turn() is None
    assert turn(waiting("b", added=2), waiting("a", added=1)) == "a"
    two = demand("x", "x"), demand("y", "y")
    assert turn(waiting("a"), running=two) is None
    assert turn(waiting("a"), running=two, at_once=3) == "a"


def test_the_user_comes_first_who_has_the_fewest_searches_for_their_weight() -> None:
    entries = waiting("a", "ann", added=1), waiting("b", "bob", added=2)
    assert turn(*entries, running=(demand("x", "ann"),)) == "b"
    both = demand("x", "ann"), demand("y", "bob")
    assert turn(*entries, running=both, at_once=3, weights={"bob": 2}) == "b"


def test_one_that_has_no_room_is_not_overtaken_and_starts_where_it_is_alone() -> None:
    large = waiting("large", added=1, each=Amounts(4))
    assert turn(large, waiting("small", added=2), running=(demand("x"),)) is None
    assert turn(large, waiting("small", added=2)) == "large"
    assert turn(waiting("too large", each=Amounts(9))) == "too large"  # it says so by itself


def test_what_one_that_is_to_start_wants_is_what_fits_and_no_more_than_it_may() -> None:
    assert waiting("a", each=Amounts(2)).to_start(of(5)).wants == 2
    assert waiting("a", each=Amounts(9)).to_start(of(5)).wants == 1
    assert Waiting("a", "ann", 0, ONE, most=3).to_start(of(5)).wants == 3


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
