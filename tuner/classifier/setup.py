"""What one rank computes with, whatever its part of the model is."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from tuner.classifier.data.batches import Batcher
from tuner.classifier.loss import CrossEntropy
from tuner.classifier.precision import Precision
from tuner.classifier.settings import ClassifierSettings
from tuner.trial.ranks import Ranks

EVALUATION_BATCH = 125  # images that a rank evaluates at once on a CPU: more only takes memory
CUDA_EVALUATION_BATCH = 1000  # on a GPU, where memory allows


@dataclass(frozen=True, slots=True)
class Setup:
    """The model on its device, or this rank's stage of it, and what feeds and measures it."""

    model: nn.Module
    settings: ClassifierSettings
    ranks: Ranks
    batcher: Batcher
    loss: CrossEntropy
    precision: Precision

    @property
    def evaluation_batch(self) -> int:
        """Images that this rank evaluates at once, where its memory allows."""
        on_cuda = self.ranks.device.type == "cuda"
        return CUDA_EVALUATION_BATCH if on_cuda else EVALUATION_BATCH
