"""The package hyperopt as a model: the contract, and its settings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from searches import ModelSearch, search_of

from tuner.errors import SpecError
from tuner.search.searchers._library_tpe import LibraryTPE, decode_point, encode_point
from tuner.spec.experiment import build_spec
from tuner.spec.space.encoding import Encoding
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract, run_trials
from tuner.testing.spaces import spaces

LINE = {"x": "uniform(0, 1)"}


@pytest.mark.slow
class TestHyperOptLibrary(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        return search_of("hyperopt", space, **{"engine": "hyperopt", **settings})


@given(spaces, st.integers(0, 99))
def test_values_of_a_point_give_it_back(space, seed):
    encoding = Encoding(space)
    (u_D,) = encoding.snap(np.random.default_rng(seed).random((1, len(encoding))))
    assert np.array_equal(
        decode_point(encode_point(u_D, encoding), encoding), u_D, equal_nan=True
    )


def test_library_tpe_searches_near_the_best_in_its_branch():
    space = {"kind": "choice(['bad', {'name': 'good', 'x': uniform(0, 1)}])"}
    search = ModelSearch(LibraryTPE(), space, seed=1)

    def loss(config):
        return 1.0 if config["kind"] == "bad" else config["kind"]["x"]

    for number in range(40):
        config = {"kind": {"name": "good", "x": number / 40}}
        search.add_evaluated_point(config, loss(config))
    search.add_evaluated_point({"kind": "bad"}, 1.0)
    losses = [loss(config) for config in run_trials(search, 0, 10, loss=loss)]
    assert 1.0 not in losses
    assert np.median(losses) < 0.25


def test_hyperopt_engine_takes_no_settings_of_our_own_model():
    def read(**settings):
        search = {"strategy": "hyperopt", "space": LINE, **settings}
        return build_spec({"search": search, "num_samples": 3})

    spec = read(engine="hyperopt")
    assert build_spec(spec.dump_values()) == spec  # which has the defaults of both
    with pytest.raises(SpecError) as refused:
        read(engine="hyperopt", gamma=0.3, candidates=8)
    assert [fault.key for fault in refused.value.faults] == [
        "search.gamma",
        "search.candidates",
    ]
