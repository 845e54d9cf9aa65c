"""A class of Ray Tune's goes on from its checkpoint, is stopped, and is cleared away."""

import os
from pathlib import Path

from ray import tune


class DiesOnce(tune.Trainable):
    """Its process dies in the third step, once: then a file of the trial's says that it has."""

    def setup(self, config):
        self.counted = 0

    def step(self):
        self.counted += 1
        if self.counted == 3 and not Path("died").exists():
            Path("died").touch()
            os._exit(7)
        return {"loss": self.config["lr"] / self.counted, "counted": self.counted}

    def save_checkpoint(self, checkpoint_dir):
        return {"counted": self.counted}

    def load_checkpoint(self, checkpoint):
        self.counted = checkpoint["counted"]

    def cleanup(self):
        Path("cleared").write_text(str(self.counted))


def test_it_goes_on_where_its_process_died(searched):
    results = searched(
        trainable=DiesOnce,
        search={"strategy": "grid", "space": {"lr": "grid_search([1.0, 2.0])"}},
        objective={"metric": "loss"},
        scheduler={"max_t": 4, "grace_period": 2, "reduction_factor": 2},
        max_concurrent=1,
    )
    first, second = results.trials.values()
    assert [report.metrics["counted"] for report in first.results] == [1, 2, 3, 4]
    assert (first.status, second.status) == ("completed", "stopped")
    assert second.last_epoch == 2
    for trial in (first, second):
        files = results.folder / "trials" / trial.trial_id / "files"
        assert (files / "cleared").read_text() == str(trial.last_epoch)
    assert (results.folder / "trials/00000/files/died").exists()  # the folder was kept
    best = results.best_checkpoint(first).path
    assert [path.name for path in best.iterdir()] == ["_dict_checkpoint.pkl"]
