"""Weights & Biases, offline, on real Ray: each trial a run, the same after a resume."""

import struct

import pytest

from tuner.search.extension import Extension
from tuner.search.run import resume_experiment

pytestmark = pytest.mark.slow

BLOCK = 32768
WHOLE = 1
LAST = 4
SPACE = {"strategy": "grid", "space": {"does": "grid_search(['good', 'raises'])"}}


def records(path):
    """The records of a file of Weights & Biases: LevelDB's log format after 7 bytes."""
    data = path.read_bytes()
    at = 7
    data_of_record = b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # no record begins so late in a block
            at += BLOCK - at % BLOCK
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        data_of_record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (WHOLE, LAST):
            yield data_of_record
            data_of_record = b""


def offline_runs(storage):
    """run id -> (config, [(step, val_loss)]) of every file that is there to be synchronised."""
    from wandb.proto.wandb_internal_pb2 import Record

    runs = {}
    for path in sorted(storage.glob("wandb/offline-run-*/run-*.wandb")):
        reports = []
        for data in records(path):
            record = Record.FromString(data)
            if record.WhichOneof("record_type") == "run":
                config = {
                    update.key: update.value_json for update in record.run.config.update
                }
                _, reports = runs.setdefault(record.run.run_id, (config, []))
            if record.WhichOneof("record_type") == "history":
                items = {
                    i.key or i.nested_key[0]: i.value_json for i in record.history.item
                }
                reports.append((int(items["_step"]), float(items["val_loss"])))
    return runs


@pytest.fixture(scope="module")
def results(searched):
    pytest.importorskip("wandb", reason="no test of it: pip install 'tuner[wandb]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        results = searched(
            trainable="faulty:Learner",
            training={"epochs": 2},
            search=SPACE,
            scheduler="none",
            log=["wandb"],
        )
        yield resume_experiment(results.folder, more=Extension(retry_failed=True))


def test_the_runs_of_wandb_are_the_trials(results):
    runs = offline_runs(results.folder.parent)
    assert sorted(run_id.rpartition("-")[2] for run_id in runs) == ["00000", "00001"]
    assert all(run_id.startswith("x-") for run_id in runs)
    config, reports = next(
        run for run_id, run in runs.items() if run_id.endswith("00000")
    )
    assert config["does"] == '"good"'
    assert reports == results.trials["00000"].list_values("val_loss")
