"""Configs at the edges of a space, beside all that the space has."""

from collections.abc import Mapping
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.space.constraints import is_allowed
from tuner.spec.space.domains import Choice, Domain
from tuner.spec.space.extremes import list_extreme_configs, list_paired_configs
from tuner.spec.space.spaces import list_domains
from tuner.testing.spaces import spaces

NAMES = ("a", "b", "c")
small = st.fixed_dictionaries({name: st.integers(1, 3) for name in NAMES}).map(
    lambda sizes: {name: Choice(tuple(range(size))) for name, size in sizes.items()}
)
conditions = st.lists(
    st.builds(
        "{} {} {} and {} == {}".format,
        st.sampled_from(NAMES),
        st.sampled_from(("==", "<", ">=")),
        st.integers(0, 2),
        st.sampled_from(NAMES),
        st.integers(0, 2),
    ),
    max_size=3,
)


@given(spaces)
def test_extreme_configs_cover_each_extreme(space):
    configs = list_extreme_configs(space)
    for name, value in space.items():
        if isinstance(value, Domain) and not any(
            isinstance(v, Mapping) for v in value.list_extremes()
        ):
            assert {str(v) for v in value.list_extremes()} == {
                str(c[name]) for c in configs
            }
    assert all(list(config) == list(space) for config in configs)
    assert not any(list(list_domains(config)) for config in configs)


@given(small, conditions)
def test_extremes_and_their_pairs_are_those_of_the_allowed_configs(space, forbid):
    cells = product(*(domain.values for domain in space.values()))
    configs = [dict(zip(space, cell, strict=True)) for cell in cells]
    allowed = [config for config in configs if is_allowed(forbid, config)]
    extreme = list_extreme_configs(space, forbid)
    if not allowed:
        assert extreme == [dict.fromkeys(NAMES, 0)]
        return
    assert all(config in allowed for config in extreme)
    for name in NAMES:
        assert {config[name] for config in extreme} == {
            config[name] for config in allowed
        }
    paired = list(list_paired_configs(space, NAMES, forbid))
    assert all(
        config in allowed and values.items() <= config.items()
        for config, values in paired
    )
    for one, other in combinations(NAMES, 2):
        wanted = {(c[one], c[other]) for c in allowed if c[one] and c[other]}
        assert {
            (v[one], v[other]) for _, v in paired if v.keys() == {one, other}
        } == wanted
