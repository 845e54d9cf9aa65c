"""Hypothesis strategies for domains and search spaces."""

from __future__ import annotations

from hypothesis import strategies as st

from tuner.spec.space.domains import Choice, Normal, Numeric

finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 6))
positive = st.floats(1e-6, 1e6).map(lambda x: round(x, 6)).filter(bool)
texts = st.text(max_size=5) | st.sampled_from(["A(", "resnet(18)", "f()(", "'"])
constants = st.one_of(st.integers(-9, 9), finite, st.booleans(), st.none(), texts)
pairs = st.tuples(finite, finite).map(sorted)
positive_pairs = st.tuples(positive, positive).map(sorted)
whole = st.tuples(st.integers(1, 999), st.integers(1, 999)).map(
    lambda p: (p[0], sum(p))
)

numeric = st.one_of(
    pairs.map(lambda p: Numeric(p[0], p[1])),
    positive_pairs.map(lambda p: Numeric(p[0], p[1], log=True)),
    whole.map(lambda p: Numeric(*p, integer=True)),
    whole.map(lambda p: Numeric(*p, integer=True, log=True)),
    st.tuples(
        st.integers(1, 50), st.integers(0, 50), st.sampled_from([0.1, 0.25, 2])
    ).map(lambda t: Numeric(t[0] * t[2], (t[0] + t[1]) * t[2], q=t[2])),
)
leaves = st.one_of(
    numeric,
    st.tuples(finite, positive).map(lambda p: Normal(*p)),
    st.lists(constants, min_size=1, max_size=4).map(lambda v: Choice(tuple(v))),
)
names = st.text("abcdefgh_", min_size=1, max_size=4)
spaces = st.dictionaries(
    names,
    st.one_of(
        leaves,
        constants.filter(lambda v: not isinstance(v, str)),
        st.dictionaries(names, leaves, min_size=1, max_size=2).map(
            lambda d: Choice((1, d))
        ),
    ),
    min_size=1,
    max_size=4,
)
