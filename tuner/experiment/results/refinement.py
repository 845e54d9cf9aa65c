"""From random to grid: a finer search of the region where the leading trials of a search lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path

import yaml

from tuner.errors import UsageError, translate_error
from tuner.experiment.files import create_file
from tuner.experiment.results.confirmation import refuse_confirmation
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_value
from tuner.experiment.trials import TrialRecord
from tuner.places import find_default_storage, find_local_folder
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flatten
from tuner.spec.settings import FaultsError
from tuner.spec.space.constraints import check_names
from tuner.spec.space.domains import (
    Choice,
    Domain,
    Normal,
    Numeric,
    Space,
    Value,
    round_float,
)
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.spaces import Position, format_space, list_names, transform

_SHARE = 5  # one trial in so many leads
_FEWEST = 3
_MOST = 10  # leading trials
_LEAST_REACH = 0.1  # of a domain's width, to each side of the best trial
_DIGITS = 6  # of a bound
_NOISE = 1e-9  # of a quotient
_NORMAL_WIDTH = 4  # standard deviations that count as a normal domain's width


@dataclass(frozen=True, slots=True)
class Refinement:
    """A grid around the leading trials: its spec, and the trials that it goes by, best first."""

    spec: ExperimentSpec
    leading: tuple[TrialRecord, ...]
    note: str

    def format_yaml(self) -> str:
        """The experiment as a file for `tuner run`, with where it comes from on top."""
        raw = self.spec.model_dump(mode="json", exclude_defaults=True)
        search = self.spec.search.model_dump(mode="json")
        raw["objective"] = self.spec.objective.model_dump(mode="json")
        raw["search"] = {
            key: value for key, value in search.items() if value not in ([], {})
        }
        head = "".join(f"# {line}\n" for line in self.note.splitlines())
        return head + yaml.safe_dump(raw, sort_keys=False, width=100)


def refine(results: Results, *, points: int) -> Refinement:
    """The grid of `points` values a continuous domain around the leading trials.

    The best fifth lead, 3 to 10 trials. A number's region spans them and a tenth of its domain
    around the best; a choice keeps their values. Raises NoUsableTrialError without a leader,
    UsageError for a confirmation, a leader outside the space, or a region that `forbid` empties.
    """
    search = results.spec
    refuse_confirmation(results)
    best = results.get_best_trial()  # raises where there is none
    usable = results.top()
    count = min(_MOST, max(_FEWEST, math.ceil(len(usable) / _SHARE)))
    leading = tuple(usable[:count])
    try:
        space = narrow_space(search.search.space, [trial.config for trial in leading])
    except FaultsError as error:
        raise UsageError(
            f"{results.name}: a leader's config is not of its space: {error}"
        ) from error
    storage = results.files.storage
    is_default = find_local_folder(
        find_default_storage()
    ).resolve() == find_local_folder(storage)
    names = list_names(space)  # a constraint over options that are gone goes as well
    forbid = [t for t in search.search.forbid if not check_names([t], names)]
    values = [
        find_best_value(trial, results.objective) for trial in (best, leading[-1])
    ]
    spec = search.replace(
        name=f"{results.name[:90]}-refined",
        storage=find_default_storage() if is_default else storage,
        search={
            "strategy": "grid",
            "space": format_space(space),
            "forbid": forbid,
            "points": points,
            "through": best.config,
        },
        num_samples=None,
        stop={},
        warm_start=None,
    )
    if not spec.trials:
        raise UsageError(
            f"search.forbid of {results.name} excludes the leaders' whole region"
        )
    note = (
        f"The region of the best {len(leading)} of {len(results.trials)} trials of {results.name}: "
        f"{results.metric} {values[0]:.4g} to {values[1]:.4g}.\n"
        f"{spec.trials} trials, {points} values of each continuous domain; the first is the "
        f"best, trial {best.trial_id},\nand --num-samples takes a part that is spread over them."
    )
    return Refinement(spec, leading, note)


def write_refined(refinement: Refinement, to: Path | None) -> Path:
    """Write the experiment to the new file `to` (None: NAME.yaml here); returns its path."""
    path = to or Path(f"{refinement.spec.name}.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(
            f"--to must end in .yaml, by which `tuner run` knows it, got {path}"
        )
    with translate_error(
        UsageError, f"cannot write {path} (--to FILE names another)", of=OSError
    ):
        create_file(path, refinement.format_yaml().encode())
    return path


def narrow_space(
    space: Space, configs: Sequence[Mapping[str, Value]]
) -> dict[str, Value]:
    """`space` narrowed to the region of `configs`, at least one, the best one first."""
    encoding = Encoding(space)
    points = [encoding.encode(config) for config in configs]

    def narrow(position: Position, domain: Domain) -> Domain:
        d = encoding.find_column(position)
        pairs = zip(configs, points, strict=True)
        active = [
            (config, float(u_D[d])) for config, u_D in pairs if not math.isnan(u_D[d])
        ]
        if not isinstance(domain, Choice):
            return _find_region(
                domain, [flatten(config, ".")[position.path] for config, _ in active]
            )
        chosen = {domain.compute_index(u) for _, u in active}
        options = (
            transform(option, narrow, position.append_branch(number))
            if isinstance(option, Mapping)
            else option
            for number, option in enumerate(domain.values)
            if number in chosen
        )
        return replace(domain, values=tuple(options), prior=None)

    return transform(space, narrow)


def _find_region(domain: Domain, values: Sequence[float]) -> Numeric:
    """Where `values`, the best one first, lie in `domain`, and a little around the best one."""
    if isinstance(domain, Normal):  # which has no bounds
        reach = _LEAST_REACH * _NORMAL_WIDTH * domain.sd
        low = min(*values, values[0] - reach)
        high = max(*values, values[0] + reach)
        return Numeric(*_round_bounds(low, high), q=domain.q)
    assert isinstance(domain, Numeric)
    # The best value, which may lie elsewhere, says more
    domain = replace(domain, prior=None)
    scale, back = (math.log, math.exp) if domain.log else (float, float)
    reach = _LEAST_REACH * (scale(domain.last) - scale(domain.first))
    low = min(*values, back(scale(values[0]) - reach))
    high = max(*values, back(scale(values[0]) + reach))
    if domain.step is None:
        lower, upper = _round_bounds(low, high)
        return replace(
            domain, lower=max(lower, domain.lower), upper=min(upper, domain.upper)
        )
    lower = math.floor(low / domain.step + _NOISE) * domain.step
    upper = math.ceil(high / domain.step - _NOISE) * domain.step
    # Whose upper bound is exclusive
    above = 1 if domain.integer and domain.step == 1 else 0
    as_written = round if domain.integer else round_float
    return replace(
        domain,
        lower=as_written(max(lower, domain.first)),
        upper=as_written(min(upper, domain.last)) + above,
    )


def _round_bounds(low: float, high: float) -> tuple[float, float]:
    lower = Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(low)
    upper = Context(prec=_DIGITS, rounding=ROUND_CEILING).create_decimal(high)
    return float(lower), float(upper)
