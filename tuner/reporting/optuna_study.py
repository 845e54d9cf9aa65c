"""An experiment as an Optuna Study, for optuna-dashboard and for Optuna's own functions.

Constants are omitted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import UsageError
from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.files import check_target
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_value
from tuner.reporting.axes import Axis, build_axes, flatten_config
from tuner.spec.space.spaces import list_domains
from tuner.wording import clean_text

_STATES = {
    COMPLETED: TrialState.COMPLETE,
    STOPPED: TrialState.PRUNED,
    FAILED: TrialState.FAIL,
    INTERRUPTED: TrialState.FAIL,  # Optuna has no state for it
    RUNNING: TrialState.RUNNING,
}
_SQLITE = "sqlite:///"  # and the path of a file
_WITHOUT_VALUE = (TrialState.FAIL, TrialState.RUNNING)


@contextmanager
def silence_optuna() -> Iterator[None]:
    """Silence Optuna's warnings about omitted trials: the captions name them."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)


def build_study(results: Results) -> optuna.Study:
    """The trials of an experiment as a Study in memory.

    A trial's value is that of its best epoch; all epochs are intermediate values. A stopped trial
    is PRUNED, with its value. A failed or interrupted trial, or one without a value, is FAIL. Id,
    status, seed, origin and kind of failure are user attributes.
    """
    with silence_optuna():
        study = optuna.create_study(
            study_name=results.name,
            direction="minimize" if results.objective.sign > 0 else "maximize",
        )
        study.add_trials([*_build_frozen_trials(results)])
        study.set_user_attr("metric", results.metric)
    return study


def write_study(study: optuna.Study, storage: str) -> None:
    """Write a Study to an Optuna `storage`, the URL of a database: completely, or not at all.

    Raises UsageError for a storage that cannot be written or already has a study of that name.
    """
    name = study.study_name
    if storage.startswith(_SQLITE):
        check_target(Path(storage.removeprefix(_SQLITE).partition("?")[0]))
    with silence_optuna():
        try:
            written = optuna.create_study(
                storage=storage, study_name=name, direction=study.direction
            )
            try:
                for key, value in study.user_attrs.items():
                    written.set_user_attr(key, value)
                written.add_trials(study.get_trials(deepcopy=False))
            except BaseException:
                optuna.delete_study(study_name=name, storage=storage)
                raise
        except optuna.exceptions.DuplicatedStudyError:
            raise UsageError(
                f"{_hide_password(storage)} already has a study {name!r}: name another storage, "
                f"or first delete it with `optuna delete-study`"
            ) from None
        except Exception as error:  # drivers of databases raise many kinds
            reason = _hide_password(
                next(iter(str(error).splitlines()), type(error).__name__)
            )
            raise UsageError(
                f"cannot write to {_hide_password(storage)}: {reason}"
            ) from error


def _hide_password(text: str) -> str:
    """A storage's URL, or a message about it, with user and password left out."""
    return re.sub(r"://[^/@]*@", "://...@", clean_text(text))


def _build_frozen_trials(results: Results) -> Iterator[FrozenTrial]:
    """The trials of `build_study`, without a Study, which copies and checks each."""
    configs = {
        trial_id: flatten_config(trial.config)
        for trial_id, trial in results.trials.items()
    }
    space = results.spec.search.space
    axes = build_axes(dict(list_domains(space)), list(configs.values()))
    distributions = {name: build_distribution(axis) for name, axis in axes.items()}
    for number, (trial_id, trial) in enumerate(results.trials.items()):
        config = configs[trial_id]
        present = {name: d for name, d in distributions.items() if name in config}
        reported = trial.list_values(results.metric)
        value = find_best_value(trial, results.objective)
        state = _STATES[trial.status]
        if state == TrialState.COMPLETE and value is None:
            state = TrialState.FAIL
        attributes = {
            "trial_id": trial.trial_id,
            "status": trial.status,
            "seed": trial.seed,
            "origin": trial.origin,
            "error": trial.error and trial.error.kind,
        }
        last_seen = max([trial.started, *(run.ended for run in trial.runs)])
        ended = last_seen if trial.ended is None else trial.ended
        yield FrozenTrial(
            number=number,
            trial_id=number,
            state=state,
            value=None if value is None or state in _WITHOUT_VALUE else float(value),
            params={name: axes[name].find_category(config[name]) for name in present},
            distributions=present,
            user_attrs={
                name: value for name, value in attributes.items() if value is not None
            },
            system_attrs={},
            intermediate_values={epoch: float(value) for epoch, value in reported},
            datetime_start=datetime.fromtimestamp(trial.started),
            datetime_complete=datetime.fromtimestamp(ended)
            if state.is_finished()
            else None,
        )


def build_distribution(axis: Axis) -> BaseDistribution:
    if axis.categories:
        return CategoricalDistribution(axis.categories)
    if axis.is_integer:
        is_log = axis.is_log and axis.low >= 1
        return IntDistribution(int(axis.low), int(axis.high), log=is_log)
    return FloatDistribution(float(axis.low), float(axis.high), log=axis.is_log)
