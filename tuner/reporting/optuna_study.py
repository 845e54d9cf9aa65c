"""An experiment as an Optuna Study: for Optuna's figures, and for optuna-dashboard.

Hyperparameters keep their dotted names. Lists become text, since Optuna's categories are plain
values. Constants are omitted. Distributions are widened to contain all values, since the space may
have changed.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

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
from tuner.experiment.results.selection import value_of
from tuner.spec.plain_values import flat, is_number
from tuner.spec.sections import Objective
from tuner.spec.space.domains import Choice, Domain, Numeric
from tuner.spec.space.spaces import domains_of
from tuner.wording import printable

_STATES = {
    COMPLETED: TrialState.COMPLETE,
    STOPPED: TrialState.PRUNED,
    FAILED: TrialState.FAIL,
    INTERRUPTED: TrialState.FAIL,  # Optuna has no state for it
    RUNNING: TrialState.RUNNING,
}
_SQLITE = "sqlite:///"  # and the path of a file
_WITHOUT_VALUE = (TrialState.FAIL, TrialState.RUNNING)
_EXACT = 2**53  # larger whole numbers differ between Optuna, a database and JSON
_MOST_CATEGORIES = 9  # without a known domain; more numbers are a range


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's warnings about omitted trials: the captions name them."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)


def study_with(
    trials: Sequence[FrozenTrial], objective: Objective, name: str | None = None
) -> optuna.Study:
    """A Study in memory of these trials, renumbered from 0, to minimise or to maximise."""
    study = optuna.create_study(
        study_name=name, direction="minimize" if objective.sign > 0 else "maximize"
    )
    study.add_trials(trials)
    return study


def study_of(results: Results) -> optuna.Study:
    """The trials of an experiment as a Study in memory.

    A trial's value is that of its best epoch; all epochs are intermediate values. A stopped trial
    is PRUNED, with its value. A failed or interrupted trial, or one without a value, is FAIL. Id,
    status, seed, origin and kind of failure are user attributes.
    """
    with quiet_optuna():
        study = study_with([*frozen_trials(results)], results.objective, results.name)
        study.set_user_attr("metric", results.metric)
    return study


def write_study(study: optuna.Study, storage: str) -> None:
    """Write a Study to an Optuna `storage`, the URL of a database: completely, or not at all.

    Raises UsageError for a storage that cannot be written or already has a study of that name.
    """
    name = study.study_name
    if storage.startswith(_SQLITE):
        check_target(Path(storage.removeprefix(_SQLITE).partition("?")[0]))
    with quiet_optuna():
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
                f"{_without_password(storage)} already has a study {name!r}: name another storage, "
                f"or first delete it with `optuna delete-study`"
            ) from None
        except Exception as error:  # drivers of databases raise many kinds
            reason = _without_password(next(iter(str(error).splitlines()), type(error).__name__))
            raise UsageError(f"cannot write to {_without_password(storage)}: {reason}") from error


def _without_password(text: str) -> str:
    """A storage's URL, or a message about it, with user and password left out."""
    return re.sub(r"://[^/@]*@", "://...@", printable(text))


def frozen_trials(results: Results) -> Iterator[FrozenTrial]:
    """The trials of `study_of`, without a Study, which copies and checks each."""
    configs = {trial_id: plain(trial.config) for trial_id, trial in results.trials.items()}
    space = results.spec.search.space
    distributions = distributions_of(dict(domains_of(space)), list(configs.values()))
    for number, (trial_id, trial) in enumerate(results.trials.items()):
        config = configs[trial_id]
        present = {name: d for name, d in distributions.items() if name in config}
        reported = trial.values(results.metric)
        value = value_of(trial, results.objective)
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
            params={name: category(config[name], d) for name, d in present.items()},
            distributions=present,
            user_attrs={name: value for name, value in attributes.items() if value is not None},
            system_attrs={},
            intermediate_values={epoch: float(value) for epoch, value in reported},
            datetime_start=datetime.fromtimestamp(trial.started),
            datetime_complete=datetime.fromtimestamp(ended) if state.is_finished() else None,
        )


def distributions_of(
    domains: Mapping[str, Domain], configs: Sequence[Mapping[str, Any]]
) -> dict[str, BaseDistribution]:
    """The distribution of each hyperparameter, widened to all values in the flat `configs`.

    A hyperparameter without a domain has one only if it varies.
    """
    values: dict[str, list[Any]] = {name: [] for name in domains}
    for config in configs:
        for name, value in config.items():
            values.setdefault(name, []).append(value)
    return {
        name: _distribution(domains.get(name), of_name)
        for name, of_name in values.items()
        if of_name and (name in domains or len(set(map(repr, of_name))) > 1)
    }


def _distribution(domain: Domain | None, values: Sequence[Any]) -> BaseDistribution:
    if isinstance(domain, Choice):
        options = [_plain_value(v) for v in domain.values if not isinstance(v, Mapping)]
        return _categories([*options, *values])
    few = len(set(map(repr, values))) <= _MOST_CATEGORIES
    numeric = all(is_number(value) and isfinite(value) for value in values)
    if not numeric or (domain is None and few):
        return _categories(values)
    ends = [domain.first, domain.last] if isinstance(domain, Numeric) else []
    low, high = min([*values, *ends]), max([*values, *ends])
    log = isinstance(domain, Numeric) and domain.log and low > 0
    if all(isinstance(value, int) for value in values):
        return IntDistribution(int(low), int(high), log=log and low >= 1)
    return FloatDistribution(float(low), float(high), log=log)


def _categories(values: Sequence[Any]) -> CategoricalDistribution:
    """The values in order; as text if Optuna would confuse some, such as True and 1."""
    distinct = list({repr(value): value for value in values}.values())
    mixed = len(set(distinct)) < len(distinct)
    return CategoricalDistribution([repr(v) if mixed else v for v in distinct])


def category(value: Any, distribution: BaseDistribution) -> Any:
    """The value of a flat config as a value of the distribution."""
    if isinstance(distribution, CategoricalDistribution):
        same = (c for c in distribution.choices if repr(c) == repr(value))
        return next(same, repr(value))
    return value


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config made flat, by dotted names; its lists as text."""
    return {name: _plain_value(value) for name, value in flat(config, ".").items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > _EXACT:
        return float(value)
    return json.dumps(value) if isinstance(value, list | tuple | Mapping) else value
