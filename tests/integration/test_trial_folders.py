"""A trial works in a folder of its own, which is kept with it."""

import json
from pathlib import Path

import pytest
import torch.distributed as dist

from tuner import trial_dir
from tuner.search.run import resume_experiment

SIDE_BY_SIDE = (1.0, 2.0)


@pytest.fixture
def side_by_side(searched, tmp_path):
    """Runs a trainable of writing.py in as many trials at a time as there are values of lr."""

    def search(name, **fields):
        space = {
            "lr": f"grid_search({list(SIDE_BY_SIDE)!r})",
            "gate": str(tmp_path),
            "trials": 2,
        }
        return searched(
            trainable=f"writing:{name}",
            search={"strategy": "grid", "space": space},
            objective={"metric": "loss", "mode": "min"},
            resources={"cpus": 0.5},
            max_concurrent=2,
            **fields,
        )

    return search


def test_export_has_weights_of_best_trial(side_by_side, tmp_path):
    results = side_by_side("keeps_its_weights", scheduler="none")
    for trial in results.trials.values():
        kept = results.best_checkpoint(trial).path / "weights.json"
        assert json.loads(kept.read_text()) == trial.config["lr"]
        assert trial.results[0].metrics["same"] == 1
        assert (
            results.folder / "trials" / trial.trial_id / "files/ck/weights.json"
        ).is_file()
    exported = results.export(tmp_path / "out") / "checkpoint/weights.json"
    assert json.loads(exported.read_text()) == 1.0


def test_trial_reads_files_of_start_dir(searched, tmp_path, monkeypatch):
    (tmp_path / "data.txt").write_text("data")
    monkeypatch.chdir(tmp_path)
    hows = ["by start_dir", "not at all", "and fails"]
    results = searched(
        trainable="writing:Reads",
        search={"strategy": "grid", "space": {"how": f"grid_search({hows!r})"}},
        objective={"metric": "loss"},
        scheduler={"max_t": 1},
    )
    by_how = {trial.config["how"]: trial for trial in results.trials.values()}
    failed = by_how.pop("and fails")
    assert (
        "No such file or directory: 'data.txt', at writing.py:" in failed.error.message
    )
    assert {trial.status for trial in by_how.values()} == {"completed"}
    assert not any(results.log_path(trial).read_text() for trial in by_how.values())
    for trial in results.trials.values():  # an empty folder does not stay
        assert not (results.folder / "trials" / trial.trial_id / "files").exists()
    again = resume_experiment(results.folder)
    assert again.counts == results.counts


@pytest.mark.slow
def test_ranks_by_value_share_trial_folder(searched):
    class Shares:
        def __init__(self, config, constants, *, device, rank, world_size):
            self.rank = rank

        def step(self):
            Path(f"rank{self.rank}").write_text(str(trial_dir()))
            dist.barrier()
            there = {path.name: path.read_text() for path in Path().iterdir()}
            return {
                "loss": 1.0,
                "same": float(len(there) == 2 and len(set(there.values())) == 1),
            }

        def state_dict(self):
            return {"epoch": 1}

        def load_state_dict(self, state):
            pass

    results = searched(
        trainable=Shares,
        search={"space": {"lr": "uniform(0, 1)"}},
        objective={"metric": "loss"},
        scheduler={"max_t": 1},
        num_samples=1,
        resources={"cpus": 0.5, "workers": 2},
    )
    (trial,) = results.trials.values()
    assert trial.error is None
    assert trial.results[0].metrics["same"] == 1
    files = results.folder / "trials" / trial.trial_id / "files"
    assert sorted(path.name for path in files.iterdir()) == ["rank0", "rank1"]
