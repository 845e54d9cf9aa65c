"""What is kept of a journal: it is told as if the journal were read, until anything has changed."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Writer, make_folder

from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import locked
from tuner.experiment.results import known
from tuner.experiment.results.best import best_json, show_json
from tuner.experiment.results.known import KnownResults, Leader, look_at
from tuner.experiment.results.listing import list_experiments
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_epoch, best_record
from tuner.experiment.results.test_record import known_test, record_test
from tuner.experiment.trials import CheckpointRecord, Report, TrialRecord
from tuner.reporting.experiment_text import summary
from tuner.spec.sections import Objective


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuner" / "known"


@pytest.fixture
def folder(tmp_path, cache):
    """An experiment with a best trial that has a checkpoint, failures of two kinds, and a leak."""
    folder = make_folder(tmp_path / "storage" / "digits")
    writer = Writer(folder)
    writer.trial(1, [0.5, 0.4], end="stopped")
    writer.trial(2, [0.6, {"val_accuracy": 0.9, "images": 3, "peak": 10**25}, 0.8])
    writer.checkpoint("00002", epoch=2)
    writer.checkpoint("00002", epoch=3)
    for number, kind in enumerate(["oom", "nan", "nan"], start=3):
        writer.trial(number, [0.99], error=(kind, f"{kind} {number}"))
    reports = [{"val_accuracy": 0.3, "memory_mib": 100.0 * epoch} for epoch in range(9)]
    writer.trial(6, reports, config={"lr": 1, "tags": ["ä", None, {"x": 0.1 + 0.2}]})
    writer.add("control", id="c1", control={"verb": "num-samples", "num_samples": 9}, by="Ann")
    writer.add("experiment_ended", status="completed", reason="finish", never_started=2)
    writer.journal.close()
    return folder


def told(results):
    """All that `ls`, `show` and `best` take from an experiment's results."""
    lines = summary(results, known_test(results)), repr(results)
    return json.dumps([*lines, show_json(results), *best_json(results, top=9)])


def is_read(folder):
    """Whether the journal is read."""
    return not isinstance(look_at(folder), KnownResults)


def test_a_journal_is_read_once_and_the_same_is_told(folder, monkeypatch):
    measured = {"trial_id": "00002", "test_accuracy": 0.5}
    measured["checkpoint_sha256"] = Results(folder).trials["00002"].checkpoints[0].sha256
    record_test(folder, "00002", measured)
    before = told(Results(folder)), list_experiments(folder.parent)
    assert before[1] == list_experiments(folder.parent)
    assert "0.5  (held-out test split)" in before[0]
    monkeypatch.setattr(Results, "__init__", lambda self, folder: pytest.fail("it is read"))
    assert (told(look_at(folder)), list_experiments(folder.parent)) == before
    assert look_at(folder).outcome.total == 9


@given(
    reports=st.dictionaries(st.integers(1, 9), st.none() | st.integers(0, 3), min_size=1),
    checkpoints=st.lists(st.integers(1, 12), max_size=5),
    mode=st.sampled_from(["min", "max"]),
)
def test_what_is_kept_of_a_trial_is_enough_for_what_is_shown(reports, checkpoints, mode):
    objective = Objective(metric="x", mode=mode)
    trial = TrialRecord("00000", 0.0, {"lr": 1})
    for epoch, value in sorted(reports.items()):
        trial.results.append(Report(epoch, 0.0, {"y": 1} if value is None else {"x": value}))
    for number, epoch in enumerate(checkpoints):
        trial.checkpoints.append(CheckpointRecord(epoch, f"{number}", "0" * 64))
    kept = Leader.of(trial, objective).record()
    assert kept.last_epoch == trial.last_epoch
    assert best_record(kept, objective) == best_record(trial, objective)
    epoch = best_epoch(trial.values("x"), objective)
    assert best_epoch(kept.values("x"), objective) == epoch
    assert kept.report_at(epoch) == trial.report_at(epoch)
    of_it = [[c for c in each.checkpoints if c.epoch == epoch] for each in (kept, trial)]
    assert of_it[0] == of_it[1]


def test_what_is_not_kept_is_read(folder):
    results = Results(folder)
    assert is_read(folder)
    for asked in ({"metric": "images", "mode": "max"}, {"scope": "last"}, {"mode": "min"}):
        assert look_at(folder).top(**asked) == results.top(**asked)
    assert look_at(folder).trials == results.trials
    assert look_at(folder).failures == results.failures


@pytest.mark.parametrize("trials", [9, 10, 11])
def test_more_than_the_kept_leaders_are_read(tmp_path, cache, trials):
    writer = Writer(make_folder(tmp_path / "digits"))
    for number in range(trials):
        writer.trial(number, [0.1, number / 100, 0.0])
    writer.end()
    results = look_at(writer.folder)
    kept = look_at(writer.folder)
    for k in (1, 9, 10, 11, None):
        ids = [trial.trial_id for trial in results.top(k)]
        assert [trial.trial_id for trial in kept.top(k)] == ids
    assert ("history" in vars(kept)) == (trials >= 10)


def test_an_experiment_without_a_usable_trial_is_told_from_its_journal(tmp_path, cache):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [], error=("nan", "m"))
    writer.end()
    assert is_read(writer.folder)
    assert not is_read(writer.folder)
    assert summary(look_at(writer.folder)) == summary(Results(writer.folder))


@pytest.mark.parametrize("name", [JOURNAL, "experiment.json"])
def test_whatever_changes_is_read(folder, name):
    assert [is_read(folder), is_read(folder)] == [True, False]
    path = folder / name
    text, times = path.read_text(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(text.replace("0.9,", "0.7,").replace('"max"', '"min"'))  # of the same size
    os.utime(path, ns=times)
    assert [is_read(folder), is_read(folder)] == [True, False]
    assert told(look_at(folder)) == told(Results(folder))
    path.write_text(text)
    assert is_read(folder)
    assert look_at(folder).outcome.best == 0.9


def test_another_version_of_this_code_reads(folder, monkeypatch):
    assert [is_read(folder), is_read(folder)] == [True, False]
    monkeypatch.setattr(known, "_version", lambda: "another")
    assert [is_read(folder), is_read(folder)] == [True, False]


def test_a_journal_that_has_a_driver_or_had_none_to_its_end_is_read_anew(folder):
    assert is_read(folder)
    with locked(folder):
        assert is_read(folder)
        assert look_at(folder).status == "completed"
    Writer(folder, resumed=True).journal.close()
    assert look_at(folder).status == "interrupted"
    assert look_at(folder).status == "interrupted"


def test_a_journal_that_grows_while_it_is_read_is_not_kept(folder, cache, monkeypatch):
    def grown(path):
        results = Results(path)
        with (path / JOURNAL).open("a") as file:
            file.write('{"event":"later","time":1.0}\n')
        return results

    monkeypatch.setattr(known, "Results", grown)
    look_at(folder)
    assert not cache.exists()


def test_the_folder_of_another_experiment_has_a_file_of_its_own(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "storage" / "other")
    assert [is_read(each) for each in (folder, other)] == [True, True]
    assert [is_read(each) for each in (folder, other)] == [False, False]
    assert look_at(other).name == "other"


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 9999, '{"key": 1}', "\udcff"])
def test_a_damaged_file_of_the_cache_does_not_count(folder, cache, text):
    assert is_read(folder)
    [place] = cache.iterdir()
    place.write_text(text, errors="surrogateescape")
    assert [is_read(folder), is_read(folder)] == [True, False]


@pytest.mark.parametrize("name", known.Known.model_fields)
def test_a_field_of_another_type_does_not_count(folder, cache, name):
    assert is_read(folder)
    [place] = cache.iterdir()
    kept = json.loads(place.read_text())
    place.write_text(json.dumps({**kept, name: "x" if name != "key" else ["x"]}))
    assert is_read(folder)
    kept["leaders"][0]["trial_id"] = 3
    place.write_text(json.dumps(kept))
    assert is_read(folder)


def test_a_link_in_the_cache_is_neither_followed_nor_written_through(folder, cache, tmp_path):
    assert is_read(folder)
    [place] = cache.iterdir()
    elsewhere = place.replace(tmp_path / "elsewhere")
    place.symlink_to(elsewhere)
    text = elsewhere.read_text()
    assert [is_read(folder), is_read(folder)] == [True, False]
    assert elsewhere.read_text() == text


def test_without_a_cache_that_can_be_written_it_is_read(folder, cache):
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("no folder")
    assert [is_read(folder), is_read(folder)] == [True, True]


def test_what_no_json_can_hold_or_is_large_is_not_kept(tmp_path, cache):
    for number, name in enumerate(["\ud800", "x" * (1 << 20)]):
        writer = Writer(make_folder(tmp_path / f"{number}"))
        writer.trial(0, [0.5], config={"name": name})
        writer.end()
        assert [is_read(writer.folder), is_read(writer.folder)] == [True, True]
        assert look_at(writer.folder).top(1)[0].config == {"name": name}


def test_many_may_look_at_the_same_time(folder):
    with ThreadPoolExecutor(8) as threads:
        texts = set(threads.map(lambda _: told(look_at(folder)), range(24)))
    assert texts == {told(Results(folder))}


def test_a_copy_of_what_lies_in_a_store_is_read(folder, monkeypatch):
    monkeypatch.setattr(ExperimentFolder, "is_remote", True)
    assert [is_read(folder), is_read(folder)] == [True, True]
