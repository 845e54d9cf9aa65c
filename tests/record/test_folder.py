import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from synthetic import make_folder

from tuner.errors import NameTakenError, UsageError
from tuner.record.folder import (
    EXPERIMENT,
    claim,
    experiment_folders,
    find_experiment,
    free_name,
    read_document,
    write_document,
)


def test_a_name_is_looked_up_in_the_storage_and_a_folder_anywhere(tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "store" / "digits")
    assert find_experiment("digits", tmp_path / "store") == folder
    assert find_experiment(folder, tmp_path / "elsewhere") == folder
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "store"))
    assert find_experiment("digits") == folder
    monkeypatch.chdir(folder)
    assert find_experiment(".").resolve() == folder


def test_the_default_storage_is_results_where_you_stand(tmp_path, monkeypatch):
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "results" / "digits")
    assert find_experiment("digits").resolve() == tmp_path / "results" / "digits"


def test_a_wrong_name_is_told_with_the_nearest(tmp_path):
    make_folder(tmp_path / "digits")
    make_folder(tmp_path / "cifar")
    message = r"no experiment 'digit' in .* \(did you mean 'digits'\?\); available: cifar, digits"
    with pytest.raises(UsageError, match=message):
        find_experiment("digit", tmp_path)
    with pytest.raises(UsageError, match="there are none yet"):
        find_experiment("digits", tmp_path / "none")


def test_only_experiments_are_listed(tmp_path):
    folder = make_folder(tmp_path / "digits")
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "dir" / EXPERIMENT).mkdir(parents=True)
    assert list(experiment_folders(tmp_path)) == [folder]
    assert list(experiment_folders(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no experiment: cannot read"),
        (b"\xff", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "must hold one object"),
        (b"{}", "has format None; this version reads 1"),
        (b'{"format": 2}', "has format 2; this version reads 1"),
        (b'{"format": 1}', "no objective"),
        (b'{"format": 1, "spec": {"objective": {"metric": "a", "mode": "up"}}}', "no objective"),
    ],
)
def test_a_damaged_document_is_named(tmp_path, content, message):
    path = tmp_path / EXPERIMENT
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_document(path)
    assert os.fspath(path) in str(caught.value)


def test_a_folder_is_claimed_once(tmp_path):
    folder = tmp_path / "new" / "digits"
    claim(folder, {"format": 1})
    assert [path.name for path in folder.iterdir()] == [EXPERIMENT]
    with pytest.raises(UsageError, match=r"'digits' exists in .*tuner resume digits"):
        claim(folder, {"format": 2})
    assert json.loads((folder / EXPERIMENT).read_text()) == {"format": 1}
    with pytest.raises(UsageError, match="cannot create"):
        claim(folder / EXPERIMENT / "inner", {})


def test_of_many_that_claim_a_name_one_gets_it_and_nothing_stays_of_the_others(tmp_path):
    def one(number):
        try:
            claim(tmp_path / "x", {"by": number}, empty=["journal.jsonl"])
        except NameTakenError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        won = [number for number in pool.map(one, range(64)) if number is not None]
    assert [json.loads((tmp_path / "x" / EXPERIMENT).read_text())["by"]] == won
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x" / "journal.jsonl").read_bytes() == b""


def test_a_folder_that_is_being_made_is_not_listed(tmp_path):
    make_folder(tmp_path / ".digits.0123")
    make_folder(tmp_path / "digits")
    assert [folder.name for folder in experiment_folders(tmp_path)] == ["digits"]


def test_a_document_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "document.json"
    write_document(path, {"a": 1})
    with pytest.raises(TypeError):
        write_document(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    write_document(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["document.json"]


def test_the_next_free_name(tmp_path):
    assert free_name("digits", tmp_path / "none") == "digits"
    make_folder(tmp_path / "digits")
    (tmp_path / "digits-2").symlink_to("nowhere")
    assert free_name("digits", tmp_path) == "digits-3"
