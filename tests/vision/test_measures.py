import pytest
import torch
from sklearn import metrics as sklearn

from tuner.vision.measures import Measures, balanced_accuracy, confusion_matrix, macro_f1
from tuner.vision.recipe import OPTIONAL_METRICS

CLASSES = 7
GENERATOR = torch.Generator().manual_seed(0)
LABELS_N = torch.randint(CLASSES - 1, (60,), generator=GENERATOR)  # none of the last class
LOGITS_NK = torch.randn(60, CLASSES, generator=GENERATOR)
LOGITS_NK[:30] += 2 * torch.nn.functional.one_hot(LABELS_N[:30], CLASSES)
LOGITS_NK[:, -1] -= 0.5  # rarely predicted


def test_a_row_is_a_class_and_a_column_what_it_was_taken_for():
    matrix = confusion_matrix(torch.tensor([1, 1, 0]), torch.tensor([0, 1, 0]), classes=2)
    assert matrix.tolist() == [[1, 1], [0, 1]]


def test_they_are_sklearns():
    measures = Measures(OPTIONAL_METRICS, CLASSES)
    got = measures.metrics(measures.counts(LOGITS_NK, LABELS_N).tolist())
    predicted_N = LOGITS_NK.argmax(1)
    assert {*predicted_N.tolist()} == {*range(CLASSES)}  # a class is predicted that never occurs
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


def test_a_class_that_nobody_has_or_predicts_does_not_count():
    matrix = torch.tensor([[3.0, 1.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    assert balanced_accuracy(matrix) == pytest.approx((3 / 4 + 1) / 2)
    assert macro_f1(matrix) == pytest.approx((6 / 7 + 8 / 9) / 2)


def test_counts_add_up_over_parts():
    measures = Measures(OPTIONAL_METRICS, CLASSES)
    parts = [
        measures.counts(LOGITS_NK[rows], LABELS_N[rows]) for rows in (slice(17), slice(17, 60))
    ]
    assert torch.equal(sum(parts), measures.counts(LOGITS_NK, LABELS_N))
    assert len(parts[0]) == measures.size


def test_only_what_is_named_is_counted():
    measures = Measures(("macro_f1",), CLASSES)
    assert [*measures.metrics(measures.counts(LOGITS_NK, LABELS_N).tolist())] == ["macro_f1"]
    nothing = Measures()
    assert nothing.counts(LOGITS_NK, LABELS_N).tolist() == []
    assert nothing.metrics([]) == {}
    assert nothing.size == 0
