"""What several tests of the terminal show."""

import pytest

from tuner.spec.experiment import ExperimentSpec, build_spec


@pytest.fixture
def spec() -> ExperimentSpec:
    """A spec of three trials of four epochs."""
    return build_spec(
        {
            "search": {"space": {"lr": "uniform(0, 1)"}},
            "objective": {"metric": "val_accuracy", "mode": "max"},
            "num_samples": 3,
            "scheduler": {"max_t": 4, "grace_period": 4},
        }
    )
