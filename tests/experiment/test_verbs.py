"""The table of verbs."""

from tuner.experiment.verbs import VERBS
from tuner.spec.experiment import ExperimentSpec


def test_verbs_that_are_settings_name_fields_of_the_spec():
    settings = {verb.field for verb in VERBS.values() if verb.is_setting}
    assert settings == {"max_concurrent", "time_budget_s", "num_samples"}
    assert settings <= set(ExperimentSpec.model_fields)
