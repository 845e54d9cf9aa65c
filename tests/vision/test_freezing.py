"""Parameters and statistics that stay as they are."""

import pytest
from test_transfer import model

from tuner.errors import SpecError
from tuner.vision.freezing import freeze, freeze_norm_statistics, match_parameters
from tuner.vision.network_head import find_head


def test_matching_takes_layers_and_patterns():
    made = model()
    assert find_head(made) == "3"
    assert match_parameters(made, ["0"]) == {"0.weight", "0.bias"}
    names = {f"{layer}.{kind}" for layer in "01" for kind in ("weight", "bias")}
    assert match_parameters(made, ["[01].*", "3.bias"]) == {*names, "3.bias"}
    assert match_parameters(made, []) == frozenset()


def test_matching_reports_all_useless_patterns(snapshot):
    with pytest.raises(SpecError) as caught:
        match_parameters(model(), ["features", "0", "nope.*"])
    assert [fault.value for fault in caught.value.faults] == ["features", "nope.*"]
    assert caught.value.faults[0].choices == ("0", "1", "3")
    with snapshot.raises(SpecError):
        match_parameters(model(), ["*"])


def test_rest_frozen_norms_needs_all_parameters_frozen():
    made = model().train()
    freeze(made, {"1.weight"})
    freeze_norm_statistics(made)
    assert made[1].training
    freeze(made, {"1.weight", "1.bias"})
    freeze_norm_statistics(made)
    assert not made[1].training
    assert made.training
