"""Hypothesis strategies for domains and search spaces."""

from __future__ import annotations

from hypothesis import strategies as st

from tuner.spec.space.domains import Choice, Normal, Numeric


def _round(number: float) -> float:
    return round(number, 6)


def _build_stepped(drawn: tuple[int, int, float]) -> Numeric:
    """A domain whose bounds are multiples of its step."""
    first, more, q = drawn
    return Numeric(
        first * q,
        (first + more) * q,
        q=q,
    )


finite = st.floats(-1e6, 1e6, allow_nan=False).map(_round)
positive = st.floats(1e-6, 1e6).map(_round).filter(bool)
code = st.sampled_from(["A(", "resnet(18)", "f()(", "'"])
texts = st.text(max_size=5) | code
constants = st.one_of(
    st.integers(-9, 9),
    finite,
    st.booleans(),
    st.none(),
    texts,
)
pairs = st.tuples(finite, finite).map(sorted)
positive_pairs = st.tuples(positive, positive).map(sorted)
counts = st.integers(1, 999)
whole = st.tuples(counts, counts).map(lambda p: (p[0], sum(p)))
multiples = st.tuples(
    st.integers(1, 50),
    st.integers(0, 50),
    st.sampled_from([0.1, 0.25, 2]),
)

numeric = st.one_of(
    pairs.map(lambda p: Numeric(p[0], p[1])),
    positive_pairs.map(lambda p: Numeric(p[0], p[1], log=True)),
    whole.map(lambda p: Numeric(*p, integer=True)),
    whole.map(lambda p: Numeric(*p, integer=True, log=True)),
    multiples.map(_build_stepped),
)
values = st.lists(constants, min_size=1, max_size=4)
leaves = st.one_of(
    numeric,
    st.tuples(finite, positive).map(lambda p: Normal(*p)),
    values.map(lambda v: Choice(tuple(v))),
)
names = st.text(
    "abcdefgh_",
    min_size=1,
    max_size=4,
)
branches = st.dictionaries(names, leaves, min_size=1, max_size=2)
spaces = st.dictionaries(
    names,
    st.one_of(
        leaves,
        constants.filter(lambda v: not isinstance(v, str)),
        branches.map(lambda d: Choice((1, d))),
    ),
    min_size=1,
    max_size=4,
)
