"""What earlier versions recorded stays readable, as docs/extending.md says.

The folder has what that version wrote, without checkpoints, for `tuner run digits num_samples=4
scheduler.max_t=3 training.epochs=3`; the document beside it is the config.json of its export.
"""

import json
import shutil
from pathlib import Path

import pytest

from tuner import Results
from tuner.search.preparation import prepare
from tuner.vision.export.read import read_export

EARLIER = Path(__file__).parent / "earlier"


@pytest.fixture(params=["0_1_0"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(EARLIER / f"digits_{request.param}", tmp_path / "digits")
    return tmp_path


def test_results_of_an_earlier_version_are_read(storage: Path) -> None:
    results = Results(storage / "digits")
    lines = (storage / "digits" / "journal.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    reported = [event for event in events if event["event"] == "result"]
    assert results.status == "completed"
    assert len(results.trials) == sum(
        event["event"] == "trial_started" for event in events
    )
    assert sum(len(trial.results) for trial in results.trials.values()) == len(reported)
    best = min(event["metrics"]["val_loss"] for event in reported)
    trial = results.get_best_trial()
    assert trial.trial_id == "00000"
    assert trial.best.value == best
    assert len(results.dataframe()) == len(results.trials)


def test_a_search_of_an_earlier_version_goes_on(storage: Path) -> None:
    recorded = json.loads((storage / "digits" / "experiment.json").read_text())["spec"]
    plan = prepare({**recorded, "storage": str(storage)}, recorded=True)
    assert plan.spec.dump_values(exclude_unset=True)["training"] == recorded["training"]
    assert plan.trials == recorded["num_samples"]


def test_a_search_learns_from_one_of_an_earlier_version(storage: Path) -> None:
    space = {"lr": "loguniform(0.001, 3)", "momentum": "uniform(0.5, 0.99)"}
    spec = {
        "name": "next",
        "training": {"epochs": 3},
        "search": {"strategy": "hyperopt", "space": space},
        "num_samples": 4,
        "storage": str(storage),
        "warm_start": ["digits"],
    }
    plan = prepare(spec)
    assert plan.warm_start is not None
    assert [trial.trial_id for trial in plan.warm_start.trials] == [
        "00000",
        "00001",
        "00002",
        "00003",
    ]


def test_an_export_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    shutil.copy(EARLIER / "export_0_1_0.json", tmp_path / "config.json")
    export = read_export(tmp_path)
    assert export.config.model.name == "cnn"
