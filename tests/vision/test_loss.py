import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as sklearn

from tuner.vision.loss import CrossEntropy, compute_class_weights, measure_logits
from tuner.vision.metrics import OPTIONAL_METRICS

CLASSES = 7
GENERATOR = torch.Generator().manual_seed(0)
# None of the last class
LABELS_N = torch.randint(CLASSES - 1, (60,), generator=GENERATOR)
LOGITS_NK = torch.randn(60, CLASSES, generator=GENERATOR)
LOGITS_NK[:30] += 2 * torch.nn.functional.one_hot(LABELS_N[:30], CLASSES)
LOGITS_NK[:, -1] -= 0.5  # rarely predicted


def test_measures_equal_those_of_sklearn():
    measured = measure_logits(
        LOGITS_NK, LABELS_N, metrics=OPTIONAL_METRICS, classes=CLASSES
    )
    got = {name: measured.metrics[name] for name in OPTIONAL_METRICS}
    predicted_N = LOGITS_NK.argmax(1)
    # A class is predicted that never occurs
    assert {*predicted_N.tolist()} == {*range(CLASSES)}
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        balanced = sklearn.balanced_accuracy_score(LABELS_N, predicted_N)
    assert got == pytest.approx(
        {
            "top5_accuracy": sklearn.top_k_accuracy_score(
                LABELS_N, LOGITS_NK, k=5, labels=range(CLASSES)
            ),
            "balanced_accuracy": balanced,
            "macro_f1": sklearn.f1_score(LABELS_N, predicted_N, average="macro"),
        }
    )
    assert got["top5_accuracy"] > (predicted_N == LABELS_N).double().mean()
    assert measured.matrix == sklearn.confusion_matrix(LABELS_N, predicted_N).tolist()


LOGITS2_NK = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 5.0]])
LABELS2_N = torch.tensor([0, 1])


def test_only_the_training_loss_is_smoothed_and_weighted():
    weights_K = torch.tensor([3.0, 1.0, 2.0])
    loss = CrossEntropy(torch.float32, smoothing=0.2, weights_K=weights_K)
    plain = F.cross_entropy(LOGITS2_NK, LABELS2_N, reduction="sum").item()
    made = {"label_smoothing": 0.2, "weight": weights_K, "reduction": "sum"}
    expected = F.cross_entropy(LOGITS2_NK, LABELS2_N, **made).item()
    assert loss.compute_training_loss(LOGITS2_NK, LABELS2_N).item() == pytest.approx(
        expected
    )
    assert loss.compute_sums(LOGITS2_NK, LABELS2_N).tolist() == pytest.approx(
        [plain, 1]
    )


@pytest.mark.parametrize("weights_K", [None, torch.tensor([3.0, 1.0, 2.0])])
def test_training_loss_of_shares_is_their_weighted_sum(weights_K):
    loss = CrossEntropy(torch.float32, smoothing=0.1, weights_K=weights_K)
    other_N = torch.tensor([2, 1])
    first_NK = F.one_hot(LABELS2_N, 3)
    second_NK = F.one_hot(other_N, 3)
    mixed = loss.compute_training_loss(LOGITS2_NK, 0.3 * first_NK + 0.7 * second_NK)
    parts = [
        loss.compute_training_loss(LOGITS2_NK, labels)
        for labels in (LABELS2_N, other_N)
    ]
    assert mixed.item() == pytest.approx(0.3 * parts[0].item() + 0.7 * parts[1].item())


LABELS = torch.tensor([0] * 6 + [1] * 3 + [2])


def test_class_weights_balanced_are_inverse_shares():
    weights_K = compute_class_weights("balanced", LABELS, classes=4)
    assert weights_K.tolist() == pytest.approx([10 / 18, 10 / 9, 10 / 3, 0])


@pytest.mark.parametrize("setting", [(1, 2, 5), (0, 0.5, 0.5)])
def test_class_weights_have_mean_1_over_images(setting):
    weights_K = compute_class_weights(setting, LABELS, classes=3)
    assert weights_K[LABELS].mean().item() == pytest.approx(1)
    expected_K = torch.tensor(setting).double() * weights_K[1] / setting[1]
    assert torch.allclose(weights_K, expected_K)
