from stories import odd, search
from synthetic import Writer, make_folder

from tuner.reporting.figures.machine import machine_figures
from tuner.reporting.throughput import throughput_of
from tuner.results.occupancy import occupancy_of
from tuner.results.results import Results


def figures_of(results):
    history = results.history
    return machine_figures(history, occupancy_of(history), throughput_of(results.trials.values()))


def test_slots_show_each_run_where_and_when_it_was(tmp_path):
    results = search(tmp_path / "x", 6)
    slots, _, _ = figures_of(results)
    bars = {trace.name: trace for trace in slots.plot.data}
    assert list(bars) == ["completed", "stopped", "failed"]
    assert [data[0] for data in bars["completed"].customdata] == ["00000", "00003"]
    first = results.trials["00000"]
    assert bars["completed"].base[0] == first.started - results.history.started
    assert bars["completed"].x[0] == first.duration_s
    assert set(bars["stopped"].y) == {"slot 1"}
    assert slots.says.startswith("White is idle time: of 1 slot x ")


def test_memory_and_throughput_have_a_point_for_each_trial(tmp_path):
    _, memory, throughput = figures_of(search(tmp_path / "x", 6))
    assert list(memory.plot.data[0].x) == list(range(6))
    assert max(memory.plot.data[0].y) == 432
    assert memory.says.startswith("The most that a trial took is 432 MiB (trial ")
    assert list(throughput.plot.data[0].y) == [5000] * 6
    assert throughput.plot.layout.yaxis.title.text == "images a second"


def test_nothing_to_show_says_why(tmp_path):
    slots, memory, throughput = figures_of(odd(tmp_path / "x", "no_trial"))
    assert slots.says == "Nothing to show: no trial has run."
    assert memory.says == "Nothing to show: no trial reported peak_memory_mib."
    assert throughput.says == "Nothing to show: no trial has reported an epoch."
    assert {figure.plot for figure in (slots, memory, throughput)} == {None}


def test_very_many_runs_are_cut_off_and_that_is_said(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    for number in range(3001):
        writer.trial(number)
    writer.end()
    slots, _, _ = figures_of(Results(writer.folder))
    assert sum(len(trace.x) for trace in slots.plot.data) == 3000
    assert "The first 3000 of 3001 runs are drawn." in slots.says
