"""The directories of a trial: its own, and the one where its search was started."""

from __future__ import annotations

import os
from pathlib import Path

TRIAL_DIR = "TUNER_TRIAL_DIR"  # in the environment of a trial: its own folder
# In the environment of a trial: where its search was started
START_DIR = "TUNER_START_DIR"


def trial_dir() -> Path:
    """The folder of the trial that this process trains; it is kept with the trial.

    Outside of a trial it is the working directory, so that the same code runs by hand.
    """
    folder = Path(os.environ.get(TRIAL_DIR) or Path.cwd())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start_dir() -> Path:
    """The directory where the search was started; outside of a trial the working directory.

    On another node of a cluster it is the copy of that directory.
    """
    return Path(os.environ.get(START_DIR) or Path.cwd())
