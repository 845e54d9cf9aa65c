from stories import odd, search
from synthetic import Writer, make_folder

from tuner.reporting.throughput import memory_of, throughput_of
from tuner.results.results import Results


def test_images_a_second_where_they_are_reported(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [{"images_per_s": v, "peak_memory_mib": 10 * v} for v in (1.0, 5.0, 3.0)])
    writer.trial(1, [{"images_per_s": 9.0}])
    writer.trial(2, [0.5])
    writer.end()
    trials = Results(writer.folder).trials.values()
    found = throughput_of(trials)
    assert (found.rates, found.unit) == ({"00000": 3, "00001": 9}, "images a second")
    assert found.median == 6
    assert memory_of(trials) == {"00000": 50}


def test_else_epochs_a_minute(tmp_path):
    trials = odd(tmp_path / "x", "one_trial").trials.values()  # two epochs in three seconds
    found = throughput_of(trials)
    assert (found.rates, found.unit) == ({"00000": 40}, "epochs a minute")
    assert memory_of(trials) == {}


def test_without_an_epoch_there_is_none(tmp_path):
    assert throughput_of(odd(tmp_path / "x", "no_report").trials.values()) is None
    assert throughput_of(search(tmp_path / "y", 0).trials.values()) is None
