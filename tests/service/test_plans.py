"""The check of a spec that a client sends."""

from tuner.errors import UsageError
from tuner.service.plans import plan_of


def test_plan_of_a_name_has_the_settings(tmp_path):
    plan = plan_of("digits", ["num_samples=3"], str(tmp_path))
    assert (plan["name"], plan["trials"], plan["spec"]["num_samples"]) == ("digits", 3, 3)


def test_plan_of_a_file_is_refused(snapshot):
    with snapshot.raises(UsageError):
        plan_of("mine.yaml", [], None)
