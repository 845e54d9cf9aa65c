"""tuner evaluate."""

import json

import photos
from commands import call, tuner
from handed import trained

from tuner.errors import SpecError, UsageError


def test_an_exported_folder_is_evaluated_by_its_path(here):
    trained(here / "results" / "hand")
    assert call("export", "hand", "--to", "out").stdout == "out\n"
    ours = json.loads(call("evaluate", "hand", "--json").stdout)
    theirs = json.loads(call("evaluate", "out", "--json").stdout)
    assert ours == {**theirs, "shown": "searched"}
    assert "test_accuracy" in call("evaluate", "out").stdout
    again = call("evaluate", "hand", "--data", "elsewhere", "--json")
    assert json.loads(again.stdout) == ours
    assert again.stderr.startswith("it was measured before, and that result is shown: --data is")
    wrong = call("evaluate", "out", "--trial", "0").exception
    assert isinstance(wrong, UsageError)
    assert str(wrong) == "--trial is for an experiment; out is one exported model"
    moved = call("evaluate", "out", "--data", "elsewhere").exception
    assert isinstance(moved, SpecError)
    assert "data_dir: is not used by dataset 'digits'" in str(moved)


def test_evaluate_prints_how_many_images_and_the_interval(here, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(here / "data"))
    place = photos.write(here / "photos", each=20)
    trained(here / "results" / "hand", dataset=f"folder:{place}", image_size=12, epochs=1)
    call("export", "hand", "--to", "out")
    photos.write(here / "new" / "test", each=10, seed=99)
    found = json.loads(call("evaluate", "out", "--data", "new", "--json").stdout)
    low, high = found["test_accuracy_interval"]
    assert (found["images"], found["baseline"]) == (30, 1 / 3)
    assert low < found["test_accuracy"] < high
    assert found["beats_baseline"] == (low > 1 / 3)
    text = call("evaluate", "out", "--data", "new").stdout
    assert "\nimages             30\n" in text
    assert f"(95 % interval {low:.4f} to {high:.4f})\n" in text
    assert ("does not beat the baseline" in text) == (low <= 1 / 3)
    shown = json.loads(call("evaluate", "hand", "--json").stdout)
    assert (shown["images"], len(shown["test_accuracy_interval"])) == (9, 2)
    assert json.loads(call("show", "hand", "--json").stdout)["test"]["beats_baseline"] is not None


def test_code_beside_an_export_is_not_run(here, monkeypatch):
    out = trained(here / "results" / "hand").export(here / "out")
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"trainable": "evil:L"}))
    (out / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(out)
    done = tuner("evaluate", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no code of an export is run" in done.stderr
    assert not (out / "ran").exists()


def test_an_experiment_of_the_name_comes_before_an_export_in_the_working_directory(here):
    trained(here / "results" / "hand").export(here / "hand")
    assert json.loads(call("evaluate", "hand", "--json").stdout)["shown"] == "searched"
