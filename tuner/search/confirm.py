"""Retrains the leaders of a search with fresh seeds, as an experiment beside it."""

from __future__ import annotations

from typing import Any

from tuner.cluster import connect as cluster
from tuner.errors import TunerError, UsageError
from tuner.experiment.events import COMPLETED, RUNNING
from tuner.experiment.results.confirmation import Confirmation, leaders, link, linked, without_seed
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import score_of
from tuner.experiment.storage import free_name
from tuner.places import LOCAL
from tuner.search.resuming import trainable_of
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.validation import Machine, validate

_ENDING = "confirm"  # of the experiment's name
_LONGEST = 90  # characters of the search's name that go into it


def confirm(
    results: Results, *, top: int, seeds: int, address: str = LOCAL, trainable: Any = None
) -> Confirmation:
    """Retrain the `top` leaders with `seeds` fresh seeds each, and compare them.

    An equal earlier confirmation is read or resumed. address: of Ray. trainable: as for
    `resume_experiment`. Raises UsageError for a running search or a confirmation, SpecError for a
    missing trainable, NoUsableTrialError without a leader, and as `run_experiment`.
    """
    machine = Machine.here() if address == LOCAL else None
    spec = confirming_spec(results, top=top, seeds=seeds)
    if trainable is not None:
        spec = spec.replace(trainable=trainable_of(spec.trainable, trainable, results.folder))
    spec = validate(spec, machine=machine)
    before = _same(results, spec)
    if before is not None and before.status == COMPLETED:
        return Confirmation(before)
    with cluster.connect(address, spec=spec):
        if before is not None:
            return Confirmation(resume_experiment(before.folder, trainable=trainable))
        link(results, spec.name)
        return Confirmation(run_experiment(spec))


def check_ended(results: Results) -> None:
    """Raise UsageError unless `results` are those of a search that has ended, NoUsableTrialError
    if no trial of it is usable.
    """
    spec = results.spec
    if spec.confirms:
        raise UsageError(f"{results.name} confirms {spec.confirms.name}: name that")
    if spec.refits:
        raise UsageError(f"{results.name} refits {spec.refits.name}: name that")
    if results.status == RUNNING:
        raise UsageError(f"{results.name} still runs: its leaders are known when it has ended")
    results.get_best_trial()


def confirming_spec(results: Results, *, top: int, seeds: int) -> ExperimentSpec:
    """The experiment that retrains the leaders without early stopping. Raises as `confirm`."""
    search = results.spec
    check_ended(results)
    trials = leaders(results, top)
    space = without_seed(search.search.model_dump(mode="json")["space"])
    if not space:
        raise UsageError(f"{results.name} searched nothing but seeds")
    scheduler = search.scheduler and search.scheduler.without_stopping().model_dump(mode="json")
    return search.replace(
        name=free_name(f"{results.name[:_LONGEST]}-{_ENDING}", results.files.storage),
        search={
            "strategy": "grid",
            "space": space,
            "order": "rows",
            "configs": [without_seed(trial.config) for trial in trials],
            "seeds": fresh_seeds(results, search, seeds),
        },
        scheduler=scheduler or "none",
        num_samples=None,
        time_budget_s=None,
        stop={},
        warm_start=None,
        confirms={
            "name": results.files.name,
            "trials": [trial.trial_id for trial in trials],
            "values": [score_of(trial, results.objective) for trial in trials],
        },
    )


def fresh_seeds(results: Results, search: ExperimentSpec, count: int) -> list[int]:
    """The first `count` seeds after the search's that none of its trials had."""
    seed = search.constants["seed"]
    used = {seed, *(trial.config.get("seed", trial.seed) for trial in results.trials.values())}
    fresh: list[int] = []
    while len(fresh) < count:
        seed = (seed + 1) % 2**32
        if seed not in used:
            fresh.append(seed)
    return fresh


def _same(results: Results, spec: ExperimentSpec) -> Results | None:
    """The newest linked experiment that retrains the same leaders with the same seeds, as long."""
    for folder in reversed(linked(results)):
        try:
            before = Results(folder)
            specs = before.spec, spec
            earlier, requested = [(s.confirms, s.epochs, s.search) for s in specs]
            if earlier == requested:
                return before
        except TunerError:  # gone, or damaged
            continue
    return None
