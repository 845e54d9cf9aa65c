import pytest
import torch

from tuner.classifier.setup import CUDA_EVALUATION_BATCH, EVALUATION_BATCH, Setup
from tuner.trial.ranks import Ranks


@pytest.mark.parametrize(
    ("device", "images"), [("cpu", EVALUATION_BATCH), ("cuda", CUDA_EVALUATION_BATCH)]
)
def test_what_is_evaluated_at_once_goes_by_the_device(device, images):
    ranks = Ranks(0, 1, torch.device(device))
    assert Setup(None, None, ranks, None, None, None).evaluation_batch == images
