"""Bring your own training: a Learner of one's own, here a small MLP on the digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from tuner import ExperimentSpec


class MLPLearner:
    """One epoch a step; config has `lr` and `hidden`, constants what the spec's `training` says."""

    metrics = ("train_loss", "val_loss", "val_accuracy")

    def __init__(
        self,
        config: Mapping[str, Any],
        constants: Mapping[str, Any],
        *,
        device: torch.device,
        rank: int,
        world_size: int,
    ) -> None:
        torch.manual_seed(constants["seed"])
        images, labels = load_digits(return_X_y=True)
        arrays = train_test_split(images / 16, labels, test_size=0.2, random_state=0)
        x_train, x_val, y_train, y_val = (
            torch.tensor(a, device=device) for a in arrays
        )
        self.train = (x_train.float(), y_train)
        self.val = (x_val.float(), y_val)
        self.model = nn.Sequential(
            nn.Linear(64, config["hidden"]), nn.ReLU(), nn.Linear(config["hidden"], 10)
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config["lr"])

    def step(self) -> dict[str, float]:
        losses = []
        for batch in torch.randperm(len(self.train[0])).split(64):
            loss = nn.functional.cross_entropy(
                self.model(self.train[0][batch]), self.train[1][batch]
            )
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        with torch.no_grad():
            logits = self.model(self.val[0])
            labels = self.val[1]
            return {
                "train_loss": torch.stack(losses).mean().item(),
                "val_loss": nn.functional.cross_entropy(logits, labels).item(),
                "val_accuracy": (logits.argmax(1) == labels).double().mean().item(),
            }

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])


def experiment() -> ExperimentSpec:
    """12 random configs of the MLP under ASHA."""
    return ExperimentSpec(
        trainable=MLPLearner,
        search={
            "space": {"lr": "loguniform(1e-4, 1e-1)", "hidden": "choice([32, 64, 128])"}
        },
        objective={"metric": "val_accuracy", "mode": "max"},
        scheduler={"max_t": 10, "reduction_factor": 3},
        num_samples=12,
    )
