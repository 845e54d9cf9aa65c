"""A function that tells which GPU it was shown, and when it had it."""

import os
import time

from ray import tune


def train(config):
    began = time.time()
    for _ in range(3):
        time.sleep(0.4)
        gpu = int(os.environ["CUDA_VISIBLE_DEVICES"])
        tune.report({"loss": config["x"], "gpu": gpu, "began": began, "told": time.time()})
