from synthetic import START, Clock, Writer, make_folder

from tuner.experiment.results.best_so_far import AXES, Curve, curves_of
from tuner.experiment.results.results import Results


def curves(folder):
    results = Results(folder)
    return curves_of(results.history, results.objective)


def test_a_search_by_what_it_had_spent(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))  # events are a second apart
    writer.trial(0, [0.5, 0.7, 0.6])
    writer.trial(1, [0.99], error=("nan", "m"))
    writer.trial(2, [0.6], end="stopped")
    writer.trial(3, [0.9])
    writer.end()
    found = curves(writer.folder)
    assert tuple(found) == AXES
    assert found["trials"] == Curve((1, 4), (0.7, 0.9), 4)
    assert found["epochs"] == Curve((1, 2, 6), (0.5, 0.7, 0.9), 6)
    assert found["seconds"] == Curve((2, 3, 13), (0.5, 0.7, 0.9), 15)


def test_trials_count_in_the_order_of_their_ends(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    for number, value in ((0, 0.9), (1, 0.5)):
        writer.trial(number, [value], end=None)
    for number in (1, 0):
        writer.add("trial_ended", trial_id=f"{number:05}", status="completed")
    writer.end()
    assert curves(writer.folder)["trials"] == Curve((1, 2), (0.5, 0.9), 2)


def test_the_gap_before_a_resume_is_not_counted(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    writer.kill()
    again = Writer(writer.folder, resumed=True, clock=Clock(START + 1000))
    again.trial(0, [0.6, 0.7], first=2)
    again.end()
    found = curves(writer.folder)
    assert found["seconds"] == Curve((2, 4, 5), (0.5, 0.6, 0.7), 7)
    assert found["epochs"].total == 3


def test_the_value_after_so_much_is_the_last_step(tmp_path):
    curve = Curve((1, 3), (0.5, 0.7), 10)
    assert [curve.at(spent) for spent in (0.5, 1, 2.9, 3, 99)] == [None, 0.5, 0.5, 0.7, 0.7]
    assert Curve((), (), 0).at(5) is None


def test_less_is_better_where_the_mode_says_so(tmp_path):
    writer = Writer(make_folder(tmp_path / "x", metric="loss", mode="min"))
    writer.trial(0, [{"loss": 2.0}, {"other": 1.0}, {"loss": 3.0}, {"loss": 1.0}])
    writer.end()
    assert curves(writer.folder)["epochs"] == Curve((1, 4), (2, 1), 4)
