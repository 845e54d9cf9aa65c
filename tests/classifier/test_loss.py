import pytest
import torch
import torch.nn.functional as F

from tuner.classifier.loss import CrossEntropy

LOGITS_NK = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 5.0]])
LABELS_N = torch.tensor([0, 1])


def test_what_is_minimised_is_smoothed_and_what_is_evaluated_is_not():
    loss = CrossEntropy(torch.float32, smoothing=0.2)
    plain = F.cross_entropy(LOGITS_NK, LABELS_N, reduction="sum").item()
    smoothed = F.cross_entropy(LOGITS_NK, LABELS_N, reduction="sum", label_smoothing=0.2)
    assert loss.training(LOGITS_NK, LABELS_N).item() == pytest.approx(smoothed.item())
    assert loss.evaluated([LOGITS_NK], LABELS_N).tolist() == pytest.approx([plain, 1])


def test_the_sum_has_the_digits_of_the_weights():
    loss = CrossEntropy(torch.float32)
    assert loss.training(LOGITS_NK.bfloat16(), LABELS_N).dtype == torch.float32


def test_views_are_averaged():
    flipping = CrossEntropy(torch.float32, test_time_flip=True)
    x_NCHW = torch.rand(2, 1, 4, 4)
    plain, mirrored = flipping.views(x_NCHW)
    assert torch.equal(plain, x_NCHW)
    assert torch.equal(mirrored, x_NCHW.flip(3))
    assert len(CrossEntropy(torch.float32).views(x_NCHW)) == 1
    other_NK = LOGITS_NK.flip(1)
    mean = CrossEntropy(torch.float32).evaluated([(LOGITS_NK + other_NK) / 2], LABELS_N)
    assert torch.allclose(flipping.evaluated([LOGITS_NK, other_NK], LABELS_N), mean)
