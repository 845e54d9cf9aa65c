"""Learners that tell their process, and keep more of a trial than a process may."""

import os

import numpy as np

from tuner.trial.trial_process import BOUND_MIB

HOARD = []


class Hoarder:
    """Keeps `hoards` times the bound, on the last rank; one epoch tells which process it was in."""

    def __init__(self, config, constants, *, device, rank, world_size):
        if rank == world_size - 1:
            HOARD.append(np.ones(int(config["trial"]["hoards"] * BOUND_MIB) << 20, np.uint8))
        if config["trial"]["raises"]:
            raise ValueError("not with me")

    def step(self):
        return {"pid": os.getpid()}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass
