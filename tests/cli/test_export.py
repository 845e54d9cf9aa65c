"""tuner export."""

import json
from pathlib import Path

import torch
from commands import call, tuner
from confirmed import FOUND, retrained, searched
from synthetic import Writer

from tuner.experiment.checkpoints import sha256_of
from tuner.experiment.results.results import Results


def test_export(digits, here):
    path = Results(digits).folder / "trials/00002/checkpoints/1/state.pt"
    torch.save({"model": {"w": torch.ones(2)}}, path)
    with Writer(digits, resumed=True).journal as journal:
        name = path.relative_to(digits).as_posix()
        journal.append("checkpoint", trial_id="00002", epoch=1, path=name, sha256=sha256_of(path))
    done = call("export", "digits", "--to", "out")
    assert done.stdout == "out\n"
    assert (here / "out" / "model.safetensors").is_file()
    again = tuner("export", "digits", "--to", "out")
    assert again.returncode == 2
    assert "exists and is not an empty folder" in again.stderr


def test_export_of_the_table_of_trials(digits, here):
    assert call("export", "digits", "--trials", "trials.csv").stdout == "trials.csv\n"
    assert len((here / "trials.csv").read_text().splitlines()) == 1 + 4
    assert call("export", "digits", "--trials", "trials.parquet").stdout == "trials.parquet\n"
    for lacking in ([], ["--trials", "trials.csv", "--trial", "2"]):
        wrong = call("export", "digits", *lacking)
        assert "export needs --to DIR" in str(wrong.exception)


def test_the_confirmed_model_is_exported_as_python_does_it(here):
    search = searched(here / "results" / "digits", FOUND)
    results = retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    writer = Writer(results.folder, resumed=True)
    path = writer.checkpoint("00003", 2)
    torch.save({"model": {"w": torch.ones(2)}}, path)
    writer.journal_checkpoint("00003", 2, path)
    writer.end()
    assert call("export", "digits", "--to", "out").stdout == "out\n"
    assert search.export("same") == Path("same")
    for name in ("config.json", "metrics.json"):
        assert (here / "out" / name).read_text() == (here / "same" / name).read_text()
    assert json.loads((here / "out" / "config.json").read_text())["experiment"] == "digits-confirm"
