"""Commands that the server runs."""

import pytest

from tuner.errors import UsageError
from tuner.service.commands import validate_experiment


def test_plan_of_a_name_has_the_settings(tmp_path):
    plan = validate_experiment("digits", ["num_samples=3"], str(tmp_path))
    assert (plan["name"], plan["trials"], plan["spec"]["num_samples"]) == (
        "digits",
        3,
        3,
    )


@pytest.mark.parametrize("name", ["mine.yaml", "mine:experiment", "--trust"])
def test_plan_of_a_file_is_refused(snapshot, name):
    with snapshot.raises(UsageError):
        validate_experiment(name, [], None)


def test_plan_of_an_unknown_name_is_refused_by_the_command(tmp_path):
    with pytest.raises(UsageError, match=r"^no experiment 'nope'"):
        validate_experiment("nope", [], str(tmp_path))
