"""What is shown as the best and handed over: the confirmed leader, else the best searched."""

import json

import pytest
from confirmed import FOUND, lengthened, retrained, searched

from tuner.experiment.files import Checkpoint
from tuner.experiment.results.best import (
    best_json,
    best_model,
    record_test,
    recorded_test,
    show_json,
)


@pytest.fixture
def search(tmp_path):
    return searched(tmp_path / "digits", FOUND)


def test_best_json_lists_confirmed_leaders_first(search):
    retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    shown = [(entry["trial_id"], entry["shown"]) for entry in best_json(search, top=4)]
    assert shown[:2] == [("00002", "confirmed"), ("00001", "confirmed")]
    assert shown[2:] == [("00000", "searched"), ("00003", "searched")]
    assert len(best_json(search, top=1)) == 1
    assert best_json(search, mode="min")[0]["shown"] == "searched"


def test_best_model_is_the_confirmed_leader_by_default(search):
    results = retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    pick = best_model(search)
    assert (pick.results.folder, pick.trial_id) == (results.folder, "00003")
    assert (pick.origin["trial_id"], pick.origin["shown"]) == ("00002", "confirmed")
    assert best_model(search, "00001").results is search
    model = best_model(results)
    assert (model.trial_id, model.origin["trial_id"]) == ("00003", "00003")


def test_best_model_after_longer_trials_is_searched(search):
    retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    assert best_model(search).origin["shown"] == "confirmed"
    longer = lengthened(search)
    assert best_model(longer).origin["shown"] == "searched"
    assert best_json(longer)[0]["trial_id"] == "00001"
    assert "confirmed" not in show_json(longer)


def test_show_json_has_confirmed_and_searched_best(search):
    assert show_json(search) == search.show()
    results = retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    shown = show_json(search)
    assert shown == {
        **search.show(),
        "confirmed": {
            "trial_id": "00002",
            "experiment": results.name,
            "mean": pytest.approx(0.925),
            "standard_error": pytest.approx(0.015),
            "seeds": 2,
            "searched": 0.93,
        },
    }
    assert shown["best"]["trial_id"] == "00001"
    assert show_json(results)["confirmed"]["trial_id"] == "00003"


MEASURED = {"checkpoint_sha256": "of this", "test_accuracy": 0.5}


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "trials" / "00001").mkdir(parents=True)
    return Checkpoint(tmp_path / "state.pt", "of this", 3)


def test_recorded_test_reads_a_record(tmp_path, checkpoint):
    assert recorded_test(tmp_path, "00001", checkpoint) is None
    record_test(tmp_path, "00001", MEASURED)
    assert recorded_test(tmp_path, "00001", checkpoint) == MEASURED
    assert json.loads((tmp_path / "trials" / "00001" / "test.json").read_text()) == MEASURED


@pytest.mark.parametrize("text", ["", "[]", '{"checkpoint_sha256": "of another"}', "[" * 9999])
def test_recorded_test_ignores_other_records(tmp_path, checkpoint, text):
    (tmp_path / "trials" / "00001" / "test.json").write_text(text)
    assert recorded_test(tmp_path, "00001", checkpoint) is None
