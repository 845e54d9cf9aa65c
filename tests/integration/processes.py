"""A trainable that tells in which process it ran."""

import os

from ray import tune


def tell(config):
    tune.report({"val_loss": config["x"], "pid": os.getpid()})
