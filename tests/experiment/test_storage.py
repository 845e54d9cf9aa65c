from synthetic import make_folder

from tuner.errors import UsageError
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.storage import (
    find_experiment,
    find_experiment_folders,
    find_free_name,
)


def test_find_experiment_by_name_or_folder(tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "store/digits")
    assert find_experiment("digits", tmp_path / "store") == folder
    assert find_experiment(folder, tmp_path / "elsewhere") == folder
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "store"))
    assert find_experiment("digits") == folder
    monkeypatch.chdir(folder)
    assert find_experiment(".").resolve() == folder


def test_find_experiment_suggests_similar_names(snapshot, tmp_path):
    make_folder(tmp_path / "digits")
    make_folder(tmp_path / "cifar")
    with snapshot.raises(UsageError):
        find_experiment("digit", tmp_path)
    with snapshot.raises(UsageError):
        find_experiment("digits", tmp_path / "none")


def test_experiment_folders_and_free_name_look_at_what_is_there(tmp_path):
    folder = make_folder(tmp_path / "digits")
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "dir" / EXPERIMENT).mkdir(parents=True)
    assert list(find_experiment_folders(tmp_path)) == [folder]
    assert list(find_experiment_folders(tmp_path / "none")) == []
    assert find_free_name("digits", tmp_path / "none") == "digits"
    (tmp_path / "digits-2").symlink_to("nowhere")
    assert find_free_name("digits", tmp_path) == "digits-3"
