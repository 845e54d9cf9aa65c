"""Commands that the server runs."""

from tuner.errors import UsageError
from tuner.service.commands import validate_experiment


def test_plan_of_a_name_has_the_settings(tmp_path):
    plan = validate_experiment("digits", ["num_samples=3"], str(tmp_path))
    assert (plan["name"], plan["trials"], plan["spec"]["num_samples"]) == (
        "digits",
        3,
        3,
    )


def test_plan_of_a_file_is_refused(snapshot):
    with snapshot.raises(UsageError):
        validate_experiment("mine.yaml", [], None)
