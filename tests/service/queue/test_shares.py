"""Who may run how much: pure arithmetic, and what holds whatever is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.cluster import LOCAL
from tuner.service.queue.shares import (
    Amounts,
    Demand,
    Room,
    choose_next,
    compute_limits,
    divide_trials,
    list_gpus,
    measure_capacity,
    parse_gpu_names,
)
from tuner.spec.validation import Machine

ONE_CPU = Amounts(1)


def demand(name, user="ann", each=ONE_CPU, **fields):
    return Demand(name, user, each, **fields)


def of(cpus, gpus=0):
    return Room(cpus, (1.0,) * gpus)


def divided(*demands, cpus, gpus=0, **weights):
    return divide_trials(demands, capacity=of(cpus, gpus), weights=weights)


def test_divide_among_users_by_weight_gives_each_one_trial_if_possible():
    both = demand("a"), demand("b"), demand("c", "bob")
    assert divided(*both, cpus=8) == {"a": 2, "b": 2, "c": 4}
    assert divided(*both, cpus=9, bob=2) == {"a": 2, "b": 1, "c": 6}
    heavy = divided(demand("a"), demand("b", "bob"), cpus=2, ann=100)
    assert heavy == {"a": 1, "b": 1}
    assert divided(demand("a"), demand("b", each=Amounts(2)), cpus=2) == {
        "a": 2,
        "b": 0,
    }


def limited(*demands, cpus, gpus=0, unused=None):
    capacity = of(cpus, gpus)
    return compute_limits(
        demands, capacity=capacity, unused=unused or capacity, weights={}
    )


def test_limits_wait_for_what_others_hold_or_for_a_whole_gpu():
    assert limited(demand("a", holds=4), demand("b"), cpus=4) == {"a": 2, "b": 0}
    assert limited(demand("a", holds=3), demand("b"), cpus=4) == {"a": 2, "b": 1}
    assert limited(demand("a", holds=2), demand("b", holds=1), cpus=4) == {
        "a": 2,
        "b": 2,
    }
    one_each = limited(demand("a", holds=2), demand("b", holds=2), cpus=1)
    assert one_each == {"a": 1, "b": 1}
    shares = demand("a", each=Amounts(1, 0.5), most=2, holds=2)
    whole = demand("b", "bob", each=Amounts(1, 1))
    spread = Room(8, (0.5, 0.5))
    together = Room(8, (0.0, 1.0))
    assert limited(shares, whole, cpus=8, gpus=2, unused=spread) == {"a": 2, "b": 0}
    assert limited(shares, whole, cpus=8, gpus=2, unused=together) == {"a": 2, "b": 1}


AMOUNTS = st.builds(
    Amounts, st.sampled_from([0.5, 1, 2, 3]), st.sampled_from([0, 0.25, 0.5, 1, 2])
)
USERS = st.sampled_from(["ann", "bob", "cy"])


@st.composite
def some_demands(draw):
    count = draw(st.integers(1, 6))
    return [
        Demand(str(n), draw(USERS), draw(AMOUNTS), draw(st.integers(1, 20)))
        for n in range(count)
    ]


def left_of(capacity, counts, demands):
    for demand in sorted(demands, key=lambda d: -d.each.gpus):
        capacity = capacity.subtract_trials(demand.each, counts[demand.name])
    return capacity


def least(room):
    return min(room.cpus, *room.gpus, 0)


@given(some_demands(), st.integers(1, 24), st.integers(0, 8), st.floats(0.5, 4))
def test_divide_fits_and_leaves_no_usable_room(demands, cpus, gpus, weight):
    capacity = of(cpus, gpus)
    due = divide_trials(demands, capacity=capacity, weights={"ann": weight})
    left = left_of(capacity, due, demands)
    assert least(left) >= -1e-6
    assert not [
        d
        for d in demands
        if due[d.name] < d.count_wanted(capacity) and left.count_fitting(d.each)
    ]


@given(some_demands(), st.integers(1, 24), st.integers(0, 8), st.data())
def test_limits_never_exceed_capacity(demands, cpus, gpus, data):
    """What may run counts for what was granted before until trials end, as in a runner."""
    capacity = of(cpus, gpus)
    holds = {d.name: 0 for d in demands}
    for _ in range(5):
        present = [
            Demand(d.name, d.user, d.each, d.most, holds[d.name])
            for d in demands
            if holds[d.name] or data.draw(st.booleans())
        ]
        for name, limit in compute_limits(
            present, capacity=capacity, unused=capacity, weights={}
        ).items():
            still = data.draw(st.integers(min(limit, holds[name]), holds[name]))
            holds[name] = max(still, limit)  # trials that run go on to their end
        assert least(left_of(capacity, holds, demands)) >= -1e-6
        gone = data.draw(st.sampled_from(demands)).name
        holds[gone] = 0


def waiting(name, user="ann", added=0, each=ONE_CPU):
    return Demand(name, user, each, added=added)


def turn(*entries, running=(), **fields):
    arguments = {"at_once": 2, "capacity": of(4, 2), "weights": {}, **fields}
    first = choose_next(entries, running, **arguments)
    return first and first.name


def test_next_to_start_is_oldest_of_the_user_with_fewest_searches():
    assert turn() is None
    assert turn(waiting("b", added=2), waiting("a", added=1)) == "a"
    two = demand("x", "x"), demand("y", "y")
    assert turn(waiting("a"), running=two) is None
    assert turn(waiting("a"), running=two, at_once=3) == "a"
    entries = waiting("a", "ann", added=1), waiting("b", "bob", added=2)
    assert turn(*entries, running=(demand("x", "ann"),)) == "b"
    both = demand("x", "ann"), demand("y", "bob")
    assert turn(*entries, running=both, at_once=3, weights={"bob": 2}) == "b"


def test_next_to_start_is_not_overtaken_while_it_waits_for_room():
    large = waiting("large", added=1, each=Amounts(4))
    assert turn(large, waiting("small", added=2), running=(demand("x"),)) is None
    assert turn(large, waiting("small", added=2)) == "large"
    # It says so by itself
    assert turn(waiting("too large", each=Amounts(9))) == "too large"


def test_capacity_of_this_machine():
    cpus = Machine.detect().cpus
    assert measure_capacity(LOCAL, gpus=False) == (cpus, ())
    assert measure_capacity(LOCAL, gpus=True) == (cpus, (1,) * len(list_gpus()))


@pytest.mark.parametrize(
    ("visible", "count", "names"),
    [
        (None, 4, ("0", "1", "2", "3")),
        ("2,GPU-7f", 2, ("2", "GPU-7f")),
        ("0,1,9", 2, ("0", "1")),  # CUDA ends at the first that is not there
        ("", 0, ()),
    ],
)
def test_gpu_names_are_those_of_cuda(visible, count, names):
    assert parse_gpu_names(count, visible) == names
