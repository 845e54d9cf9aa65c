"""The metrics that the image classifier reports."""

from __future__ import annotations

from tuner.spec.sections import EPOCHS_TRAINED

METRICS = (
    "train_loss",
    "val_loss",
    "val_accuracy",
    "lr",
    "micro_batch_size",
    "images_per_s",
    "epoch_s",
    "parameters",
)
LATENCY = "latency_ms"
REFIT_METRICS = (
    *(name for name in METRICS if not name.startswith("val_")),
    EPOCHS_TRAINED,
)
# Each is reported, of both splits, where the setting `metrics` names it
OPTIONAL_METRICS = ("top5_accuracy", "balanced_accuracy", "macro_f1")
