"""Tables of real learning curves, on which searches under early stopping are simulated in seconds.

`digits`: the validation loss after each of 10 epochs of tuner's image classifier (small CNN, 8x8
digits). `photographs`: the same on crops of scikit-learn's two photographs. The others: of
scikit-learn's MLPClassifier on the data set that they are named after. The configs are the first
720 of Sobol's sequence in a space of `SPACES`. A table is a compressed .npz: `u_ND` are the configs
in the unit cube, `loss_NE` their losses; a loss that is not finite is stored as inf.
"""

# N configs, D hyperparameters, E epochs, K neighbours

from pathlib import Path

import numpy as np

from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

FOLDER = Path(__file__).with_name("data")
NEIGHBOURS = 8
DIGITS = {
    "lr": "loguniform(1e-4, 10)",
    "momentum": "uniform(0.5, 0.99)",
    "weight_decay": "loguniform(1e-6, 0.5)",
    "batch_size": "choice([16, 32, 64, 128])",
}
PHOTOGRAPHS = {
    "lr": "loguniform(1e-5, 3)",
    "momentum": "uniform(0, 0.99)",
    "weight_decay": "loguniform(1e-7, 0.5)",
    "batch_size": "choice([16, 32, 64, 128])",
    "width": "choice([8, 16, 32])",
}
MLP = {
    "lr": "loguniform(1e-5, 3)",
    "momentum": "uniform(0, 0.99)",
    "alpha": "loguniform(1e-6, 10)",
    "batch_size": "choice([8, 16, 32, 64])",
    "units": "lograndint(2, 65)",
}
SPACES = {
    "digits": DIGITS,
    "photographs": PHOTOGRAPHS,
    "breast_cancer": MLP,
    "wine": MLP,
}


def load_table(name):
    """(configs in the unit cube, validation losses) of a table."""
    with np.load(FOLDER / f"curves_{name}.npz") as table:
        return table["u_ND"].astype(float), table["loss_NE"].astype(float)


class Curves:
    """Learning curves of any config, interpolated from a table's."""

    def __init__(self, table):
        self.encoding = Encoding(parse_space(SPACES[table]))
        u_ND, loss_NE = load_table(table)
        self.u_ND = self.encoding.snap(u_ND)
        self.log_NE = np.log(np.clip(loss_NE, 1e-3, 1e2))

    def __call__(self, u_D):
        squared_N = ((self.u_ND - u_D) ** 2).sum(axis=1)
        near_K = np.argsort(squared_N)[:NEIGHBOURS]
        weight_K = np.exp(
            -2 * squared_N[near_K] / (squared_N[near_K[NEIGHBOURS // 2]] + 1e-9)
        )
        return np.exp(weight_K @ self.log_NE[near_K] / weight_K.sum())
