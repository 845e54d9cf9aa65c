"""The spec of an experiment: its sections, and how it is read from text."""

from tuner.spec.experiment import ExperimentSpec

__all__ = ["ExperimentSpec"]
