from tuner.reporting.figures import draw_confusion
from tuner.reporting.figures.images import draw_confusion_matrix

CLASSES = ["cat", "<b>dog</b>", "owl"]
MATRIX = [[8, 2, 0], [1, 4, 5], [0, 0, 0]]


def test_confusion_shows_counts_and_the_shares_of_each_class(snapshot):
    figure = draw_confusion({"confusion": {"classes": CLASSES, "matrix": MATRIX}})
    snapshot.compare_value(
        (figure.caption, figure.plot["data"], figure.plot["layout"]["xaxis"])
    )


def test_confusion_of_other_records_is_left_out():
    assert draw_confusion(None) is None
    assert draw_confusion({"confusion": {"classes": ["a"], "matrix": [[1, 2]]}}) is None
    names = [f"{n}" for n in range(101)]
    caption, plot = draw_confusion_matrix(
        {"confusion": {"classes": names, "matrix": [[0] * 101] * 101}}
    )
    assert plot is None
    assert "101 classes" in caption
