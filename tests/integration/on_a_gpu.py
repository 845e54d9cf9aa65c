"""A function that tells which GPU it was shown, and when it had it.

All but the first trial of a search wait until two searches have begun.
"""

import os
import time

from ray import tune

from tuner.trial.directories import start_dir, trial_dir


def train(config):
    began = time.time()
    here = start_dir()
    trial = trial_dir().parent
    (here / f"{trial.parents[1].name}.began").touch()
    while trial.name != "00000" and len(list(here.glob("*.began"))) < 2:
        time.sleep(0.1)
    for _ in range(2):
        time.sleep(0.4)
        gpu = int(os.environ["CUDA_VISIBLE_DEVICES"])
        tune.report(
            {"loss": config["x"], "gpu": gpu, "began": began, "last_seen": time.time()}
        )
