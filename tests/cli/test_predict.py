"""An export's predictions on the command line."""

import csv
import json
import os

import photos
import pytest
from commands import call, refusal, tuner
from handed import trained

from tuner.vision.export.predict import predict


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_DATA", str(folder / "data"))
        images = photos.write(folder / "photos", each=20)
        results = trained(
            folder / "results/hand", dataset=f"folder:{images}", image_size=12
        )
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
        assert cells == [
            text for n, p in predictions[file].top[:2] for text in (n, f"{p:.4f}")
        ]


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
        assert [float(p) for p in cells[1::2]] == pytest.approx(
            [p for _, p in each.top], abs=1e-7
        )
    assert call("predict", model, new, "--csv", "-").stdout.startswith(
        "file,label,probability\n"
    )


def test_predict_writes_names_of_any_bytes_and_no_formulas(model, new, here, run_main):
    name = os.fsdecode(b"caf\xe9,\n.jpg")
    (here / new / "rose/0000.jpg").rename(here / name)
    (here / new / "rose/0001.jpg").rename(here / "=1+1.jpg")
    assert (
        call("predict", model, "--csv", "out.csv", "--", name, "=1+1.jpg").return_value
        == 0
    )
    text = (here / "out.csv").read_text(errors="surrogateescape")
    assert [row[0] for row in csv.reader(text.splitlines(keepends=True))][1:] == [
        name,
        "'=1+1.jpg",
    ]
    done = run_main("predict", model, name)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("caf ,")


def test_predict_lists_unreadable_files_at_the_end(snapshot, model, new, here):
    (here / new / "daisy/0000.jpg").write_bytes(b"no image")
    predictions = expected(model, new)
    done = call("predict", model, new, "gone.jpg", "--json")
    assert done.return_value == 3
    document = json.loads(done.stdout)
    for each, (file, prediction) in zip(
        document["predictions"], predictions.items(), strict=True
    ):
        [(label, probability)] = prediction.top[:1]
        top = {"label": label, "probability": probability}
        assert each == {"file": file, **top, "top": [top]}
    snapshot.compare_value(document["unreadable"])
    snapshot(done.stderr)
    for form in ([], ["--csv", "-"], ["--json"]):
        none = call("predict", model, "gone.jpg", "gone.jpg", *form)
        assert none.return_value == 1
        assert none.stderr.startswith(
            "2 of 2 files cannot be read:\n  gone.jpg: No such"
        )
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


def test_predict_asks_before_a_network_runs_and_prints_only_data(
    new, here, monkeypatch, data_home
):
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
