"""What becomes of a function that a node does not run; nodes run some in integration/."""

import pytest

from tuner.cluster.joined.run_on_nodes import problem_of


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("ModuleNotFoundError: No module named 'tuner'", "tuner is not installed there"),
        ("x\nModuleNotFoundError: No module named 'tuner.joined'\n", "another version of tuner"),
        ("The node\n\n  has died  \n", "has died"),
        ("", "RuntimeError('')"),
    ],
)
def test_the_reason_is_one_line(said, problem):
    assert problem_of(RuntimeError(said)).startswith(problem)
