"""Functions that run on nodes."""

import pytest

from tuner.cluster.tasks import describe_ray_error


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "ModuleNotFoundError: No module named 'tuner'",
            "tuner is not installed there",
        ),
        (
            "x\nModuleNotFoundError: No module named 'tuner.joined'\n",
            "another version of tuner",
        ),
        ("The node\n\n  has died  \n", "has died"),
        ("", "RuntimeError('')"),
    ],
)
def test_problem_of_is_one_line(text, problem):
    assert describe_ray_error(RuntimeError(text)).startswith(problem)
