"""What retrained leaders show: who is chosen, what can be told apart, and what is handed over."""

import shutil

import pytest
from confirmed import FOUND, lengthened, retrained, searched
from synthetic import Writer

from tuner.errors import NoUsableTrialError
from tuner.experiment.results.confirmation import (
    Confirmation,
    choose_model,
    describe_best,
    find_confirmation,
    should_refit,
    show_json,
)
from tuner.experiment.results.results import Results


@pytest.fixture
def search(tmp_path):
    return searched(tmp_path / "digits", FOUND)


def test_only_a_spec_with_refit_wants_one(search, tmp_path):
    assert search.ranked
    assert not should_refit(search)
    assert should_refit(searched(tmp_path / "wants", FOUND, refit=True))
    assert not should_refit(searched(tmp_path / "empty", {}, refit=True))


def test_confirmation_chooses_the_best_mean(snapshot, search):
    retrained(search, [[0.88, 0.90, 0.86], [0.91, 0.94, 0.92], [0.80, 0.81, 0.82]])
    confirmation = find_confirmation(search)
    assert confirmation.chosen.optimism == pytest.approx(0.93 - 0.92333, abs=1e-4)
    handed = confirmation.trial
    assert (handed.trial_id, handed.seed) == ("00004", 3)  # the search's seed is 1
    best = confirmation.describe_best()
    del best["confirmed"]
    snapshot.compare_value(best)
    assert confirmation.first_searched.trial_id == "00001"


def test_confirmation_of_failed_trials_is_none(snapshot, search):
    results = retrained(search, [[None, None]])
    with snapshot.raises(NoUsableTrialError):
        Confirmation(results)
    assert find_confirmation(search) is None


def test_confirmation_of_an_unfinished_experiment_is_none(search):
    assert find_confirmation(search) is None
    assert describe_best(search)[0]["shown"] == "searched"
    assert choose_model(search).trial_id is None
    results = retrained(search, [[0.9, 0.8]], end=None)
    assert find_confirmation(search) is None
    shutil.rmtree(results.folder)
    assert find_confirmation(search) is None


def test_confirmation_of_uses_the_newest_with_the_leader(search):
    retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    newer = retrained(search, [[0.97, 0.98], [0.91, 0.94]])
    assert newer.name == "digits-confirm-2"
    confirmation = find_confirmation(search)
    assert confirmation.chosen.trial_id == "00001"
    writer = Writer(search.folder, resumed=True)
    writer.trial(9, [0.99], config={"lr": 0.7})
    writer.end()
    assert find_confirmation(Results(search.folder)) is None


def test_confirmation_of_ignores_foreign_links(search, tmp_path):
    elsewhere = searched(tmp_path / "other/digits", FOUND)
    results = retrained(elsewhere, [[0.88, 0.90]])
    for text in (
        f'{{"experiments": ["../other/{results.name}", "..", 3, "digits"]}}',
        '{"experiments": "digits"}',
        "[]",
        "not JSON",
    ):
        (search.folder / "confirmed.json").write_text(text)
        assert find_confirmation(search) is None


def test_best_model_after_longer_trials_is_searched(search):
    retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    assert choose_model(search).origin["shown"] == "confirmed"
    longer = lengthened(search)
    assert choose_model(longer).origin["shown"] == "searched"
    assert describe_best(longer)[0]["trial_id"] == "00001"
    assert "confirmed" not in show_json(longer)


def test_show_json_has_confirmed_and_searched_best(search):
    assert show_json(search) == search.show()
    results = retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    shown = show_json(search)
    confirmed = shown.pop("confirmed")
    assert shown == search.show()
    assert (confirmed.pop("mean"), confirmed.pop("standard_error")) == pytest.approx(
        (0.925, 0.015)
    )
    leader = {
        "trial_id": "00002",
        "experiment": results.name,
        "seeds": 2,
        "searched": 0.93,
    }
    assert confirmed == leader
    assert show_json(results)["confirmed"]["trial_id"] == "00003"
    order = [entry["trial_id"] for entry in describe_best(search, top=4)]
    assert order == ["00002", "00001", "00000", "00003"]
    assert len(describe_best(search, top=1)) == 1
    assert describe_best(search, mode="min")[0]["shown"] == "searched"
