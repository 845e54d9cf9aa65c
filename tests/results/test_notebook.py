import pytest
from synthetic import Writer, make_folder

from tuner.results.notebook import SHOWN, results_html
from tuner.results.results import Results


@pytest.fixture
def writer(tmp_path):
    return Writer(make_folder(tmp_path / "digits"))


def cells(html):
    """The text of the cells of the table, row by row."""
    lines = [line.strip() for line in html.splitlines()]
    return [line[4:-5] for line in lines if line.startswith("<td>")]


def test_the_best_trials_stand_first(writer):
    writer.trial(1, [0.5, 0.25], config={"lr": 0.1, "norm": None})
    writer.trial(2, [0.75, 0.875], config={"lr": 0.03552123, "augment": {"shift": 2}})
    writer.trial(3, [], error=("nan", "m"))
    writer.end()
    html = Results(writer.folder)._repr_html_()
    assert html.startswith("<p><b>digits</b>: completed, 3 trials: 2 completed, 1 failed</p>\n")
    heads = ["trial", "status", "best val_accuracy", "epoch", "lr", "norm", "augment/shift"]
    assert [f"<th>{name}</th>" in html for name in heads] == [True] * len(heads)
    assert cells(html) == [
        *("00002", "completed", "0.875", "2", "0.03552", "", "2"),
        *("00001", "completed", "0.5", "1", "0.1", "", ""),
    ]
    assert "<p>The best 2; all: <code>dataframe()</code></p>" in html


def test_many_trials_are_cut(writer):
    for number in range(SHOWN + 5):
        writer.trial(number, [number / 100])
    writer.end()
    html = results_html(Results(writer.folder))
    assert html.count("<tr") == SHOWN + 1
    assert f"The best {SHOWN}; all:" in html


def test_all_that_there_are_need_no_hint(writer):
    writer.trial(1, [0.5])
    writer.end()
    assert "dataframe()" not in results_html(Results(writer.folder))


def test_without_a_usable_trial_there_is_no_table(writer):
    assert results_html(Results(writer.folder)) == (
        "<p><b>digits</b>: running, 0 trials: none has started</p>"
    )
    writer.trial(1, [], error=("nan", "m"))
    writer.end("failed")
    html = results_html(Results(writer.folder))
    assert html == "<p><b>digits</b>: failed, 1 trial: 1 failed</p>"


def test_text_of_others_is_no_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    folder = make_folder(tmp_path / "digits", name=evil)
    writer = Writer(folder)
    writer.trial(1, [0.5], config={evil: evil})
    writer.end()
    html = results_html(Results(folder))
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_elsewhere_results_tell_what_they_are(writer):
    writer.trial(1, [0.5])
    writer.end()
    assert repr(Results(writer.folder)) == "<Results of digits: completed, 1 trial>"
