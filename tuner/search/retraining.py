"""Retrains a search's best configs, as an experiment beside it.

`confirm` trains the leaders with fresh seeds. `refit` trains one config on the training and
validation images together. The search has chosen its config and number of epochs by the validation
split; after that its images are of more use in the training. A refit trains as many epochs as the
trial's best one, on the learning rate's schedule of the search. A schedule that ended there would
be another training, which nothing has measured.

A refit has no image left to choose by. So its objective is the number of epochs: the model is that
of the last epoch, and of several seeds that of the first, the seed of the search.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tuner.cluster import LOCAL
from tuner.cluster import connect as cluster
from tuner.errors import TunerError, UsageError, translate_error
from tuner.experiment.events import COMPLETED, RUNNING
from tuner.experiment.files import REFITTED
from tuner.experiment.results.confirmation import (
    Confirmation,
    choose_validated_model,
    drop_seed,
    find_leaders,
    find_linked_folders,
    find_refit,
    is_trained,
    link,
    refuse_confirmation,
    should_refit,
)
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_report, find_best_value
from tuner.experiment.storage import find_experiment_folders, find_free_name
from tuner.experiment.trials import TrialRecord
from tuner.search.extension import Extension, resolve_trainable
from tuner.search.preparation import Plan, prepare
from tuner.search.run import refuse_changed_data, resume_experiment, run_experiment
from tuner.search.stopping import estimate_refit_s
from tuner.spec.declaration import Declaration, load_declaration
from tuner.spec.experiment import FINAL, ExperimentSpec
from tuner.spec.sections import EPOCHS_TRAINED
from tuner.spec.validation import Machine

_log = logging.getLogger(__name__)

_CONFIRM = "-confirm"
_REFIT = "-refit"  # endings of the experiment's name
_LONGEST = 90  # characters of the search's name that go into it


def confirm(
    results: Results,
    *,
    top: int,
    seeds: int,
    address: str = LOCAL,
    trainable: Any = None,
) -> Confirmation:
    """Retrain the `top` leaders with `seeds` fresh seeds each, and compare them.

    An equal earlier confirmation is read or resumed. address: of Ray. trainable: as for
    `resume_experiment`. Raises UsageError for a running search, a confirmation or changed images,
    SpecError for a missing trainable, NoUsableTrialError without a leader, and as `run_experiment`.
    """
    spec = build_confirm_spec(results, top=top, seeds=seeds, trainable=trainable)
    earlier = reversed(find_linked_folders(results))
    return Confirmation(
        _run_or_resume(results, spec, earlier, address=address, trainable=trainable)
    )


def refit(
    results: Results,
    *,
    trial_id: str | None = None,
    seeds: int = 1,
    final: bool = False,
    cpus: float | None = None,
    gpus: float | None = None,
    address: str = LOCAL,
    trainable: Any = None,
) -> Results:
    """Train a trial's config on training and validation images; the Results of NAME-refit.

    trial_id: default the choice of `tuner best`. seeds: how many models, the first with the trial's
    own seed. final: train on the test images, too. cpus, gpus: of each worker, default those of the
    search. If the same refit was begun before, it is read or resumed. address, trainable: as for
    `confirm`. Raises UsageError for a Learner that declares no such training, and as `confirm`
    does.
    """
    spec = build_refit_spec(
        results, trial_id=trial_id, seeds=seeds, final=final, trainable=trainable
    )
    changes = {"cpus": cpus, "gpus": gpus}
    resources = {name: amount for name, amount in changes.items() if amount is not None}
    spec = spec.replace(resources={**spec.resources.model_dump(), **resources})
    stem = spec.name.rpartition(_REFIT)[0] + _REFIT
    earlier = (
        f for f in find_experiment_folders(spec.storage) if f.name.startswith(stem)
    )
    return _run_or_resume(results, spec, earlier, address=address, trainable=trainable)


def run_requested_refit(results: Results, *, address: str) -> Results | None:
    """The refit that the spec of a completed search asks for, trained or resumed; else None.

    None, too, if it has not come to its end: it may take twice what the search has left for it.
    Raises as `refit` does.
    """
    if results.status != COMPLETED or not should_refit(results):
        return find_refit(results)
    spec = build_refit_spec(results, final=results.spec.refit == FINAL)
    if results.spec.time_budget_s:
        spec = spec.replace(
            time_budget_s=2 * estimate_refit_s(results.spec, results.history)
        )
    earlier = reversed(find_linked_folders(results, REFITTED))
    _run_or_resume(results, spec, earlier, address=address, trainable=None)
    return find_refit(results)


def build_confirm_spec(
    results: Results, *, top: int, seeds: int, trainable: Any = None
) -> ExperimentSpec:
    """The experiment that retrains the leaders without early stopping. Raises as `confirm`."""
    _check_ended(results)
    trains, declared = _resolve_declaration(results, trainable)
    search = results.spec
    trials = find_leaders(results, top)
    scheduler = search.scheduler and search.scheduler.disable_stopping().model_dump(
        mode="json"
    )
    return _build_spec(
        results,
        _CONFIRM,
        search,
        trials,
        [*_choose_fresh_seeds(results, seeds)],
        trainable=trains,
        training={
            **search.training,
            **declared.choose_confirm_constants(search.training),
        },
        scheduler=scheduler or "none",
        confirms={
            "name": results.files.name,
            "trials": [trial.trial_id for trial in trials],
            "values": [find_best_value(trial, results.objective) for trial in trials],
        },
    )


def build_refit_spec(
    results: Results,
    *,
    trial_id: str | None = None,
    seeds: int = 1,
    final: bool = False,
    trainable: Any = None,
) -> ExperimentSpec:
    """The experiment of a refit. Parameters and errors as of `refit`."""
    _check_ended(results)
    trains, declared = _resolve_declaration(results, trainable)
    if declared.refit is None:
        raise UsageError(
            f"{trains} declares no refit, so it cannot train on training and validation data "
            "together: a Learner's Declaration sets `refit`"
        )
    if final and declared.final is None:
        raise UsageError(
            f"{trains} declares no final training, so its test data cannot train: a Learner's "
            "Declaration sets `final`"
        )
    source, trial = choose_validated_model(results, trial_id).trial
    search = source.spec
    report = find_best_report(trial, source.objective)
    if report is None:
        raise UsageError(
            f"trial {trial.trial_id} of {source.name} never reported {source.metric}"
        )
    constants, epochs = declared.choose_refit(search.training, report.epoch)
    if "epochs" not in search.search.space:
        # The schedule's length; max_t is the training's
        constants = {"epochs": search.constants["epochs"], **constants}
    return _build_spec(
        results,
        _REFIT,
        search,
        [trial],
        [
            trial.find_seed(search.constants["seed"]),
            *_choose_fresh_seeds(source, seeds - 1),
        ],
        trainable=trains,
        training={**search.training, **constants, **((final and declared.final) or {})},
        objective={"metric": EPOCHS_TRAINED, "mode": "max"},
        scheduler={"name": "none", "max_t": epochs},
        confirms=None,
        refits={
            "name": source.files.name,
            "trial_id": trial.trial_id,
            "epoch": report.epoch,
            "chosen_by": source.metric,
            "value": report.metrics[source.metric],
            "final": final,
        },
    )


def _resolve_declaration(results: Results, trainable: Any) -> tuple[str, Declaration]:
    """(the trainable of the search, or `trainable` in its place; what it declares)."""
    trains = resolve_trainable(results.spec.trainable, trainable, results.folder)
    with translate_error(UsageError, f"cannot import {trains}"):
        return trains, load_declaration(trains)


def _check_ended(results: Results) -> None:
    """Raise UsageError unless the search has ended, NoUsableTrialError without usable trial."""
    refuse_confirmation(results)
    if refits := results.spec.refits:
        raise UsageError(f"{results.name} refits {refits.name}: name that")
    if results.status == RUNNING:
        raise UsageError(
            f"{results.name} still runs: its leaders are known when it has ended"
        )
    results.get_best_trial()


def _choose_fresh_seeds(results: Results, count: int) -> list[int]:
    """The first `count` seeds after the search's that none of its trials had."""
    seed = results.spec.constants["seed"]
    used = {
        seed,
        *(trial.config.get("seed", trial.seed) for trial in results.trials.values()),
    }
    fresh: list[int] = []
    while len(fresh) < count:
        seed = (seed + 1) % 2**32
        if seed not in used:
            fresh.append(seed)
    return fresh


def _build_spec(
    results: Results,
    ending: str,
    search: ExperimentSpec,
    trials: Iterable[TrialRecord],
    seeds: list[int | None],
    **changes: Any,
) -> ExperimentSpec:
    """`search`, changed to train the configs of `trials` once with each seed."""
    space = drop_seed(search.search.model_dump(mode="json")["space"])
    if not space:
        raise UsageError(f"{results.name} searched nothing but seeds")
    return search.replace(
        name=find_free_name(
            f"{results.name[:_LONGEST]}{ending}", results.files.storage
        ),
        search={
            "strategy": "grid",
            "space": space,
            "order": "rows",
            "configs": [drop_seed(trial.config) for trial in trials],
            "seeds": seeds,
        },
        num_samples=None,
        time_budget_s=None,
        stop={},
        warm_start=None,
        refit=False,
        **changes,
    )


def _run_or_resume(
    results: Results,
    spec: ExperimentSpec,
    earlier: Iterable[Path],
    *,
    address: str,
    trainable: Any,
) -> Results:
    """The Results of `spec`: read or resumed from the `earlier` folder of an equal one, or run."""
    plan = prepare(spec, machine=Machine.detect() if address == LOCAL else None)
    spec = plan.spec
    before = _find_equal(spec, earlier)
    if (
        before is not None
        and before.status == COMPLETED
        and (spec.confirms or is_trained(before))
    ):
        return before
    plan = plan.pin_data()  # the search has said what is doubtful of the images
    refuse_changed_data(plan, results.document, results.name)
    with cluster.connect(address, spec=spec):
        if before is not None:
            more = Extension(time_budget_s=spec.time_budget_s)
            return resume_experiment(before.folder, more=more, trainable=trainable)
        if spec.confirms:
            link(results, spec.name)
        elif results.spec.refit:
            link(results, spec.name, REFITTED)
        return run_experiment(plan)


def prepare_confirmation(results: Results, *, top: int, seeds: int) -> Plan:
    """The plan of a confirmation that another process runs, and that the search names from now on.

    Raises as `confirm`, and UsageError if an equal one has begun.
    """
    plan = prepare(
        build_confirm_spec(results, top=top, seeds=seeds), machine=Machine.detect()
    )
    if before := _find_equal(plan.spec, find_linked_folders(results)):
        raise UsageError(
            f"{before.name} has trained the same configs with the same seeds"
        )
    plan = plan.pin_data()
    refuse_changed_data(plan, results.document, results.name)
    link(results, plan.spec.name)
    return plan


def _find_equal(spec: ExperimentSpec, folders: Iterable[Path]) -> Results | None:
    """The first experiment that trains the same configs with the same seeds, as long; or None."""
    for folder in folders:
        try:
            results = Results(folder)
            before, now = (
                (s.confirms, s.refits, s.search, s.training, s.epochs)
                for s in (results.spec, spec)
            )
        except TunerError:  # gone, damaged, or of another version
            continue
        if before == now:
            return results
    return None
