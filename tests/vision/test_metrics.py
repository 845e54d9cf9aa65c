"""Metrics that are reported if a setting names them."""

from test_image_classifier import quick
from test_recipe import TINY

from tuner.testing.contracts import is_equal
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.metrics import METRICS


def test_metrics_adds_reports_of_both_splits():
    learner = ImageClassifier({"metrics": ["macro_f1", "top5_accuracy"]}, TINY)
    report = learner.step()
    assert (
        {*learner.metrics}
        == {*report}
        == {*METRICS, "val_macro_f1", "val_top5_accuracy"}
    )
    assert report["val_top5_accuracy"] > report["val_accuracy"]
    assert [*learner.test()][2:4] == ["test_macro_f1", "test_top5_accuracy"]
    plain = ImageClassifier({}, TINY)
    assert quick(plain.step()) == quick(report)
    assert is_equal(plain.state_dict(), learner.state_dict())
