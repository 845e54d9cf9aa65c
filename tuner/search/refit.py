"""Trains the best config on the training and validation images together, as an experiment.

The search has chosen the config and the number of epochs by the validation split; after that its
images are of more use in the training. A refit trains as many epochs as the trial's best one, on
the learning rate's schedule of the search: the training that validation measured, stopped where it
measured, with more images in each epoch. A schedule that ended there would be another training,
which nothing has measured.

No image is left to choose by. So the objective is the number of epochs: the model is that of the
last epoch, and of several seeds that of the first, the seed of the search.
"""

from __future__ import annotations

from typing import Any

from tuner.cluster import connect as cluster
from tuner.errors import TunerError, UsageError, translate_error
from tuner.experiment.events import COMPLETED
from tuner.experiment.results.best import best_model
from tuner.experiment.results.confirmation import without_seed
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_report
from tuner.experiment.storage import experiment_folders, free_name
from tuner.places import LOCAL
from tuner.search.confirm import check_ended, fresh_seeds
from tuner.search.resuming import trainable_of
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.declaration import declaration_of
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import EPOCHS_TRAINED
from tuner.spec.validation import Machine, validate

_ENDING = "-refit"  # of the experiment's name
_LONGEST = 90  # characters of the search's name that go into it


def refit(
    results: Results,
    *,
    trial_id: str | None = None,
    seeds: int = 1,
    cpus: float | None = None,
    gpus: float | None = None,
    address: str = LOCAL,
    trainable: Any = None,
) -> Results:
    """Train a trial's config on training and validation images; the Results of NAME-refit.

    trial_id: default the choice of `tuner best`. seeds: how many models, the first with the trial's
    own seed. cpus, gpus: of each worker, default those of the search. If the same refit was begun
    before, it is read or resumed. address, trainable: as for `confirm`. Raises UsageError for a
    Learner that declares no refit, and as `confirm` does.
    """
    spec = refitting_spec(results, trial_id=trial_id, seeds=seeds, trainable=trainable)
    changes = {"cpus": cpus, "gpus": gpus}
    resources = {name: amount for name, amount in changes.items() if amount is not None}
    spec = spec.replace(resources={**spec.resources.model_dump(), **resources})
    spec = validate(spec, machine=Machine.here() if address == LOCAL else None)
    before = _same(spec)
    if before is not None and before.status == COMPLETED:
        return before
    with cluster.connect(address, spec=spec):
        if before is not None:
            return resume_experiment(before.folder, trainable=trainable)
        return run_experiment(spec)


def refitting_spec(
    results: Results, *, trial_id: str | None = None, seeds: int = 1, trainable: Any = None
) -> ExperimentSpec:
    """The experiment of a refit. Parameters and errors as of `refit`."""
    check_ended(results)
    trains = trainable_of(results.spec.trainable, trainable, results.folder)
    with translate_error(UsageError, f"cannot import {trains}"):
        constants = declaration_of(trains).refit
    if constants is None:
        raise UsageError(
            f"{trains} declares no refit, so it cannot train on training and validation data "
            "together: a Learner's Declaration sets `refit`"
        )
    pick = best_model(results, trial_id)
    source = pick.results
    trial = source.get_best_trial() if pick.trial_id is None else source.trial(pick.trial_id)
    report = best_report(trial, source.objective)
    if report is None:
        raise UsageError(f"trial {trial.trial_id} of {source.name} never reported {source.metric}")
    search, space = source.spec, without_seed(source.spec.search.model_dump(mode="json")["space"])
    if "epochs" not in space:  # the length of the schedule; max_t is that of the training
        constants = {"epochs": search.constants["epochs"], **constants}
    seed = trial.trained_with(search.constants["seed"])
    return search.replace(
        name=free_name(f"{results.name[:_LONGEST]}{_ENDING}", results.files.storage),
        trainable=trains,
        training={**search.training, **constants},
        search={
            "strategy": "grid",
            "space": space,
            "order": "rows",
            "configs": [without_seed(trial.config)],
            "seeds": [seed, *fresh_seeds(source, search, seeds - 1)],
        },
        objective={"metric": EPOCHS_TRAINED, "mode": "max"},
        scheduler={"name": "none", "max_t": report.epoch},
        num_samples=None,
        time_budget_s=None,
        stop={},
        warm_start=None,
        confirms=None,
        refits={
            "name": source.files.name,
            "trial_id": trial.trial_id,
            "epoch": report.epoch,
            "chosen_by": source.metric,
            "value": report.metrics[source.metric],
        },
    )


def _same(spec: ExperimentSpec) -> Results | None:
    """The experiment beside that of `spec` which has done, or begun, the same refit; or None."""
    stem = spec.name.rpartition(_ENDING)[0] + _ENDING
    for folder in experiment_folders(spec.storage):
        if not folder.name.startswith(stem):
            continue
        try:
            before = Results(folder)
            earlier, wanted = [(s.refits, s.search, s.training) for s in (before.spec, spec)]
        except TunerError:  # damaged, or of another version
            continue
        if earlier == wanted:
            return before
    return None
