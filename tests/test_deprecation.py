"""Names of an earlier version: they work, and warn."""

import pytest
from synthetic import ended

from tuner.deprecation import rename_attributes
from tuner.errors import Fault
from tuner.experiment.results.results import Results
from tuner.spec.declaration import Declaration


class Renamed:
    __getattr__ = rename_attributes(old="new")
    new = 5


def test_an_old_name_gives_the_new_attribute_and_warns():
    with pytest.warns(DeprecationWarning, match=r"^Renamed.old is new since tuner 0.2"):
        assert Renamed().old == 5


def test_another_name_is_missing_as_ever():
    with pytest.raises(
        AttributeError, match="'Renamed' object has no attribute 'older'"
    ):
        _ = Renamed().older


def test_results_and_trials_have_the_names_of_the_version_before(tmp_path):
    results = Results(ended(tmp_path / "a", [0.5, 0.6]))
    trial = results.trials["00000"]
    with pytest.warns(DeprecationWarning, match="goes with 0.3"):
        assert results.best_json() == results.describe_best()
    with pytest.warns(DeprecationWarning, match="goes with 0.3"):
        assert trial.values("val_accuracy") == trial.list_values("val_accuracy")


def test_a_declaration_with_a_hook_of_the_version_before_is_refused():
    with pytest.raises(TypeError, match=r"Old.faults is find_faults since tuner 0.2"):

        class Old(Declaration):
            def faults(self, spec, *, here):
                yield Fault("lr", "must be other")
