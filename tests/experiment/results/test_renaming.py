"""A new name is that of the folder and of all that names the experiment."""

import json

import pytest
from confirmed import retrained, searched
from synthetic import Writer, make_folder

from tuner.errors import SpecError, UsageError
from tuner.experiment.journal import Journal
from tuner.experiment.results.confirmation import confirmation_of
from tuner.experiment.results.described import Described
from tuner.experiment.results.renaming import rename
from tuner.experiment.results.results import Results


def test_everything_shows_the_new_name(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5])
    writer.end()
    renamed = rename(Described(writer.folder), "mine")
    assert renamed.folder == tmp_path / "mine"
    assert not writer.folder.exists()
    results = Results(tmp_path / "mine")
    assert (results.name, results.spec.name, results.show()["name"]) == ("mine", "mine", "mine")
    assert json.loads((tmp_path / "mine" / "experiment.json").read_text())["spec"]["name"] == "mine"


@pytest.mark.parametrize("renamed", ["digits", "digits-confirm"])
def test_a_confirmation_still_confirms(tmp_path, renamed):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    retrained(search, [[0.9, 0.8], [0.7, 0.6]])
    before = confirmation_of(search).chosen.mean.mean
    rename(Described(tmp_path / renamed), "other")
    found = Results(tmp_path / ("other" if renamed == "digits" else "digits"))
    assert confirmation_of(found).chosen.mean.mean == before


def test_what_cannot_be_renamed_stays(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.end()
    (tmp_path / "taken").mkdir()
    experiment = Described(writer.folder)
    with pytest.raises(UsageError, match="taken exists: give another name"):
        rename(experiment, "taken")
    with pytest.raises(SpecError, match=r"must be letters, digits"):
        rename(experiment, "../up")
    with Journal.open(writer.folder), pytest.raises(UsageError, match="is held by"):
        rename(experiment, "free")
    assert Results(writer.folder).name == "digits"
