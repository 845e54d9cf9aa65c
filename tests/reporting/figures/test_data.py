import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import search
from synthetic import change_document, read_document

from tuner.experiment.results.results import Results
from tuner.reporting.figures import draw_section
from tuner.reporting.figures.data import FigureData, find_fence, select_leading
from tuner.spec.sections import Objective


def test_rungs_leave_out_trials_that_a_user_stopped(writer):
    writer.trial(0, [0.5], end=None)
    writer.add("trial_ended", trial_id="00000", status="stopped", control="1")
    writer.end()
    data = FigureData(writer.results)
    assert (data.stopped, data.rungs[0].stopped) == ([], 0)


def test_data_of_some_trials_has_these_alone(tmp_path):
    results = search(tmp_path / "x", 30)
    some = {trial_id: results.trials[trial_id] for trial_id in [*results.trials][:12]}
    data = FigureData(results, some)
    # Which failed
    assert {trial.trial_id for trial in data.ranked} == some.keys() - {"00004"}
    assert data.rungs[0].reached == 12


@pytest.mark.parametrize(
    ("values", "mode", "fence"),
    [
        ([1, 2, 3, 4, 5, 100], "min", 4.75 + 3 * 2.5),
        ([-100, 1, 2, 3, 4, 5], "max", 1.25 - 3 * 2.5),
        ([-100, 1, 2, 3, 4, 5], "min", None),
        ([1, 2, 3, 4, 5], "min", None),
        ([1, 100, 1000], "min", None),
    ],
)
def test_fence_of_values_is_tukeys_outer_fence(values, mode, fence):
    assert find_fence(values, Objective(mode=mode)) == fence


@given(st.lists(st.integers(), min_size=1, unique=True), st.integers(1, 20))
def test_leading_keeps_order_and_ends(items, most):
    kept = select_leading(items, most)
    assert len(kept) == min(most, len(items))
    assert kept == [item for item in items if item in kept]
    assert kept[0] == items[0]
    assert kept[: most // 2] == items[: most // 2]
    assert kept[-1] == items[-1] or most < 3


def test_data_of_an_unreadable_spec_has_figures_without_rungs(tmp_path):
    folder = search(tmp_path / "x", 20).folder
    document = read_document(folder / "experiment.json")
    change_document(folder / "experiment.json", spec=document["spec"] | {"newer": 1})
    data = FigureData(Results(folder))
    assert (data.spec, data.rungs) == (None, [])
    assert [*data.axes] == ["lr", "momentum", "width"]
    assert all(figure.plot for figure in draw_section("hyperparameters", data))
