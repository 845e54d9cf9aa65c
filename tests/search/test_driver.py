"""What decides in a search, by its spec."""

import json
import shutil

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.files import EXPERIMENT
from tuner.experiment.folder import ExperimentFolder
from tuner.search.driver import Driver, build_scheduler
from tuner.search.extension import Extension
from tuner.search.preparation import Plan
from tuner.spec.experiment import build_spec
from tuner.spec.validation import settle_spec


def spec_of(**changes):
    space = {"lr": "uniform(0, 1)"}
    return build_spec({"search": {"space": space}, "num_samples": 9, **changes})


@pytest.mark.parametrize("scheduler", [None, {"name": "asha", "max_t": 9}])
def test_scheduler_of_adds_patience(scheduler):
    built = build_scheduler(spec_of(scheduler=scheduler, stop={"patience_epochs": 2}))
    answers = [built.record("00000", epoch, {"val_loss": 1.0}) for epoch in (1, 2, 3)]
    assert answers == [True, True, False]


# --- drivers that are killed


def driven(folder, trials, *, has_grown=False, last_ends=True):
    """The configs of so many further trials; then the driver is killed. None: of all that are left.

    The loss is the distance of lr from 0.3. last_ends: whether the last end is journaled.
    """
    files = ExperimentFolder(folder)
    spec = settle_spec(build_spec(files.read_document()["spec"]))
    writer = Writer(folder, resumed=has_grown)
    driver = Driver(Plan(spec), files, writer.journal, has_grown=has_grown)
    driver.restore()
    assert not list(driver.iterate_unfinished())
    driver.begin([], fits=lambda: 9)
    configs = []
    while len(configs) != trials and (trial := driver.queue.pop_next()):
        configs.append(trial.config)
        driver.start(trial.trial_id, trial.config)
        metrics = {"loss": abs(trial.config["lr"] - 0.3)}
        driver.emit("result", trial_id=trial.trial_id, epoch=1, metrics=metrics)
        if len(configs) == trials and not last_ends:
            break
        driver.end(trial.trial_id, "completed")
        driver.queue.release(
            trial.trial_id, {**metrics, "training_iteration": 1}, failed=False
        )
    writer.kill()
    return configs


CHOICES = ({"lr": "choice([0.1, 0.2, 0.4])"}, "choice([0.4, 0.3, 0.2, 0.1, 0.8])")
BOUNDS = ({"lr": "uniform(0.1, 0.9)", "n": "uniform(0, 1)"}, "uniform(0, 1)")
GRIDS = ({"lr": "uniform(0.1, 0.9)", "n": "choice([1, 2])"}, "uniform(0.1, 1.7)")


@pytest.mark.parametrize(
    ("strategy", "spaces", "total"),
    [
        *(("random", CHOICES, 5), ("grid", CHOICES, 5), ("grid", GRIDS, 7)),
        *(("hyperopt", CHOICES, 5), ("random", BOUNDS, 12)),
        *(("bayesopt", BOUNDS, 12), ("hyperopt", BOUNDS, 12), ("bohb", BOUNDS, 12)),
    ],
)
def test_grown_space_is_searched_alike_after_every_kill(
    tmp_path, strategy, spaces, total
):
    space, wider = spaces
    search = {"strategy": strategy, "space": space}
    if strategy not in ("random", "grid"):
        points = [{"n": 0.5}] if spaces is BOUNDS else []
        search |= {"startup": 2, "points_to_evaluate": points}
    samples = None if strategy == "grid" else 12
    spec = {"search": search, "metric": "loss", "mode": "min", "num_samples": samples}
    folder = make_folder(tmp_path / "whole", scheduler=False, **spec)
    first = driven(folder, 3)
    document = ExperimentFolder(folder).read_document()
    extended = Extension(changes={"search.space.lr": wider}).apply(
        document, ExperimentFolder(folder)
    )
    (folder / EXPERIMENT).write_text(json.dumps(extended))
    killed = shutil.copytree(folder, tmp_path / "killed")
    whole = [*first, *driven(folder, None, has_grown=True)]
    parts = [driven(killed, count, has_grown=True) for count in (1, 0, 2, None)]
    assert first + [config for part in parts for config in part] == whole
    assert len(whole) == len(set(map(json.dumps, whole))) == total
    assert sum(config.get("n") == 0.5 for config in whole) == len(
        search.get("points_to_evaluate", [])
    )


@pytest.mark.parametrize("strategy", ["bayesopt", "hyperopt", "bohb", "mixed"])
def test_trial_whose_driver_is_killed_before_its_end_counts_as_ended(
    tmp_path, strategy
):
    search = {"strategy": strategy, "space": {"lr": "uniform(0, 1)"}, "startup": 2}
    spec = {"search": search, "metric": "loss", "mode": "min", "num_samples": 9}
    folder = make_folder(
        tmp_path / "whole", scheduler={"name": "asha", "max_t": 1}, **spec
    )
    killed = shutil.copytree(folder, tmp_path / "killed")
    parts = [driven(killed, count, last_ends=False) for count in (3, 2, 1)]
    parts.append(driven(killed, None))
    assert [config for part in parts for config in part] == driven(folder, None)
