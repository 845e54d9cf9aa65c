"""A LightningModule: Ray's callback reports and saves after each epoch.

Replace `Net` and the data. Needs `pip install lightning`. A trial whose process dies goes on from
its newest checkpoint. `tuner export lightning_module --to best` copies the best one: load it with
`Net.load_from_checkpoint("best/checkpoint/checkpoint", lr=..., hidden=...)`.

    $ tuner run examples/lightning_module.py
    lightning_module: completed in 25s
    9 trials: 5 completed, 4 stopped

    Best trial 00003, epoch 9 of 9, completed
      val_accuracy  0.9194
      val_loss      0.3187
    Its config
      lr            0.04841
      hidden        128

    Results      results/lightning_module
    Report       tuner report lightning_module
    TensorBoard  tuner tensorboard lightning_module
"""

import lightning
import torch
from ray import tune
from ray.tune.integration.pytorch_lightning import TuneReportCheckpointCallback
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    def __init__(self, lr, hidden):
        super().__init__()
        self.lr = lr
        self.model = nn.Sequential(
            nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        )

    def training_step(self, batch, _):
        x, y = batch
        return cross_entropy(self.model(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        logits = self.model(x)
        self.log("val_loss", cross_entropy(logits, y))
        self.log("val_accuracy", (logits.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def train(config):
    x, y = (torch.tensor(array) for array in load_digits(return_X_y=True))
    x = x.float() / 16
    lightning.seed_everything(0)
    report = TuneReportCheckpointCallback(
        ["val_loss", "val_accuracy"], on="train_epoch_end"
    )
    trainer = lightning.Trainer(
        max_epochs=9,
        callbacks=[report],
        enable_checkpointing=False,  # the callback saves
        enable_progress_bar=False,
        logger=False,
    )
    before = tune.get_checkpoint()  # of this trial, after a kill
    trainer.fit(
        Net(**config),
        DataLoader(TensorDataset(x[:1400], y[:1400]), 64, shuffle=True),
        DataLoader(TensorDataset(x[1400:], y[1400:]), 400),
        ckpt_path=before and f"{before.path}/checkpoint",
    )


def experiment():
    return {
        "trainable": train,
        "search": {
            "space": {"lr": "loguniform(1e-4, 1e-1)", "hidden": "choice([32, 64, 128])"}
        },
        "objective": {"metric": "val_accuracy", "mode": "max"},
        "scheduler": {"max_t": 9, "reduction_factor": 3},
        "num_samples": 9,
    }
