import pytest
from confirmed import refitted, retrained, searched
from synthetic import Writer, ended, make_folder, read_document

from tuner.errors import SpecError, UsageError
from tuner.experiment.files import REFITTED
from tuner.experiment.journal import Journal
from tuner.experiment.results.confirmation import find_confirmation
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.experiment.results.upkeep import find_prunable, rename_experiment
from tuner.spec.code import IMAGE_CLASSIFIER


def test_rename_changes_folder_and_spec(tmp_path):
    folder = ended(tmp_path / "digits", [0.5])
    assert rename_experiment(Described(folder), "mine").folder == tmp_path / "mine"
    assert not folder.exists()
    results = Results(tmp_path / "mine")
    assert (results.name, results.spec.name, results.show()["name"]) == (
        "mine",
        "mine",
        "mine",
    )
    assert read_document(tmp_path / "mine/experiment.json")["spec"]["name"] == "mine"


def test_rename_to_an_invalid_name_is_refused(snapshot, tmp_path):
    folder = ended(tmp_path / "digits")
    (tmp_path / "taken").mkdir()
    experiment = Described(folder)
    with snapshot.raises(UsageError):
        rename_experiment(experiment, "taken")
    with snapshot.raises(SpecError):
        rename_experiment(experiment, "../up")
    with Journal.open(folder), snapshot.raises(UsageError):
        rename_experiment(experiment, "free")
    assert Results(folder).name == "digits"


@pytest.mark.parametrize("name", ["digits", "digits-confirm"])
def test_rename_confirmed_or_confirming_experiment_is_refused(snapshot, tmp_path, name):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    retrained(search, [[0.9, 0.8], [0.7, 0.6]])
    with snapshot.raises(UsageError):
        rename_experiment(Described(tmp_path / name), "other")
    assert find_confirmation(Results(search.folder))


@pytest.mark.parametrize("name", ["digits", "digits-refit"])
def test_rename_of_an_experiment_or_the_refit_that_is_handed_over_is_refused(
    snapshot, tmp_path, name
):
    search = searched(
        tmp_path / "digits", {0.1: 0.9}, trainable=IMAGE_CLASSIFIER, refit=True
    )
    refitted(search, linked=True)
    with snapshot.raises(UsageError):
        rename_experiment(Described(tmp_path / name), "other")
    search.files.remove_file(REFITTED)  # as a refit that the search does not hand over
    assert rename_experiment(Described(tmp_path / name), "other").name == "other"


def test_prunable_keeps_leaders_and_unfinished_trials(snapshot, tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    ends = {
        0.5: "completed",
        0.9: "completed",
        0.4: "stopped",
        0.3: "interrupted",
        0.2: None,
    }
    for number, (value, end) in enumerate(ends.items()):
        writer.checkpoint(writer.trial(number, [value], end=end), 1, b"x" * 100)
    writer.trial(5, [0.1], error=("oom", "m"))
    writer.checkpoint("00005", 1)
    writer.kill()
    pruned = find_prunable(writer.results, keep=1)
    snapshot.compare_value((pruned.folders, pruned.freed, pruned.kept))
    assert find_prunable(writer.results, keep=9).folders == {}


def test_prunable_keeps_the_confirmed_model(tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    # The best model is not the leader's
    confirming = retrained(search, [[0.85, 0.84], [0.9, 0.1]])
    handed = find_confirmation(confirming).trial.trial_id
    assert confirming.get_best_trial().trial_id != handed
    assert handed in find_prunable(confirming, keep=1).kept
