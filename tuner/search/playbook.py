"""The Deep Learning Tuning Playbook (Godbole et al., Google, 2023) as a chain of experiments.

explore: random trials of the complete space. narrow: more of them in the space, and of the length,
that `tuner advise` suggests. exploit: a search that learns from both. confirm: the leaders, with
fresh seeds. The experiments are the only state, so a user may extend or add one in between.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.errors import SpecError, UsageError
from tuner.experiment.events import COMPLETED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.confirmation import confirmation_of, link, linked
from tuner.experiment.results.results import Results
from tuner.reporting.advice import advise
from tuner.reporting.advice.domains import FEWEST
from tuner.reporting.advice.finding import Finding
from tuner.reporting.advice.record import SearchRecord
from tuner.search.retraining import confirming_spec
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.plain_values import get_at
from tuner.spec.text import assigned, with_strategy, with_values
from tuner.wording import joined

FIRST = "-1-explore"  # ending of the first experiment's name
OVER = (COMPLETED, "skipped")
_EXPLORE, _NARROW, _CONFIRM = 1 / 2, 1 / 8, 1 / 8  # shares of the budget; exploit gets the rest
_SHORTEST, _LONG = 12, 72  # trials of a chain, and from where on it confirms 3 leaders
_CHANGING = ("edge", "wasted", "diverged", "max_t_short", "max_t_long")  # kinds of findings
_Plan = tuple[str, dict[str, Any]]  # a reason, and what the stage changes, by dotted path


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage. status: of its experiment, "planned", or "skipped", which has no spec.

    results: None before it starts. confirms: the search whose leaders it retrains.
    """

    name: str
    status: str
    reason: str
    spec: ExperimentSpec | None = None
    results: Results | None = None
    confirms: Results | None = None

    def run(self) -> None:
        """Run or resume its experiment. Raises as `run_experiment`, and NoUsableTrialError."""
        if self.results:
            results = resume_experiment(self.results.folder)
        elif self.spec:
            if self.confirms:
                link(self.confirms, self.spec.name)
            results = run_experiment(self.spec, note=self.reason)
        if results.status != COMPLETED:
            results.get_best_trial()


def stages_of(spec: ExperimentSpec) -> Iterator[Stage]:
    """The stages of a chain; ends after one that is neither over nor run by then.

    spec: of the command line, named NAME-1-explore. Later stages take the space, the constraints
    and the length of trials from the stage before. Raises UsageError for what a chain cannot do,
    and NoUsableTrialError if explore has no usable trial.
    """
    if spec.objective.others:
        raise UsageError("--playbook needs a single objective")
    if not spec.time_budget_s and (spec.num_samples or 0) < _SHORTEST:
        raise UsageError(f"--playbook needs --num-samples {_SHORTEST} or more, or --time-budget")
    searched: list[Results] = []
    for ending, plan in ((FIRST, _explore), ("-2-narrow", _narrow), ("-3-exploit", _exploit)):
        name = spec.name.removesuffix(FIRST) + ending
        folder = ExperimentFolder(spec.folder.with_name(name))
        if folder.is_taken:
            results = Results(folder.path)
            yield Stage(name, results.status, results.labels.note, results.spec, results)
        else:
            reason, changes = plan(spec, searched)
            planned = _changed(spec, {"name": name, **changes}) if changes else None
            yield Stage(name, "planned" if planned else "skipped", reason, planned)
            if not planned:
                continue
        if not folder.is_taken or (results := Results(folder.path)).status != COMPLETED:
            return
        searched.append(results)
        searched[0].get_best_trial()  # the budget of a later stage may end before its first trial
    yield _confirm(spec, searched)


def changes_of(spec: ExperimentSpec, findings: Iterable[Finding]) -> _Plan:
    """What findings change of a spec, and why; of two for one key the more urgent counts."""
    reasons, changes = [], dict[str, Any]()
    for finding in findings:
        if finding.kind in _CHANGING:
            setting = shlex.split(finding.command)[-1]
            [(path, value)] = assigned([setting])
            try:
                _changed(spec, {**changes, path: value})
            except SpecError:  # as of trials that would be shorter than `grace_period`
                continue
            if path not in changes:
                changes[path] = value
                reasons.append(f"{finding.seen} Now {setting}.")
    return " ".join(reasons), changes


def _explore(spec: ExperimentSpec, _: Sequence[Results]) -> _Plan:
    reason = f"half of the budget at random; findings on the space need {FEWEST} trials"
    search = with_strategy(spec.plain(exclude_unset=True), "random")["search"]
    return reason, {"search": search, **_share(spec, _EXPLORE)}


def _narrow(spec: ExperimentSpec, searched: Sequence[Results]) -> _Plan:
    [explored] = searched
    findings, base = advise(SearchRecord.of(explored)), _after(explored, {"strategy": "random"})
    reason, changes = changes_of(_changed(spec, base), findings)
    if not changes:
        few = [finding.seen for finding in findings if finding.kind == "few_trials"]
        return ": ".join(["no finding of `tuner advise` changes the spec", *few[:1]]), {}
    # Another seed, since the same one draws the same points of the unit cube
    again = {"seed": (spec.seed + 1) % 2**32, "warm_start": explored.name}
    return reason, {**base, **changes, **again, **_share(spec, _NARROW)}


def _exploit(spec: ExperimentSpec, searched: Sequence[Results]) -> _Plan:
    last, names = searched[-1], [results.name for results in reversed(searched)]
    earlier = [spec.warm_start] if isinstance(spec.warm_start, str) else spec.warm_start or ()
    trials = sum(len(results.trials) for results in searched)
    seconds = sum(results.history.duration_s for results in searched)
    count, limit, size = spec.num_samples, spec.time_budget_s, last.spec.search.trials(None)
    budget = {
        "num_samples": count and count - trials - _side(spec) ** 2,
        "time_budget_s": limit and limit * (1 - _CONFIRM) - seconds,
    }
    if size is not None and trials >= size:
        return f"all {size} configs of the space were tried", {}
    if any(amount is not None and amount <= 0 for amount in budget.values()):
        return "nothing is left of the budget", {}
    search = spec.plain(exclude_unset=True)["search"] if spec.search.learns else {}
    explored = ("points_to_evaluate", "default_first")
    search = {"strategy": "mixed"} | {k: v for k, v in search.items() if k not in explored}
    reason = f"{search['strategy']} learns from {joined(names)} and spends what is left"
    return reason, {**_after(last, search), "warm_start": [*names, *earlier], **budget}


def _confirm(spec: ExperimentSpec, searched: Sequence[Results]) -> Stage:
    """The confirmation of the search with the best trial: valid, unfinished or planned."""
    usable = (results for results in searched if results.ranked)
    best = min(usable, key=lambda results: results.objective.key(results.ranked[0][0]))
    folders = (folder for folder in linked(best) if ExperimentFolder(folder).is_taken)
    unfinished = [r for r in map(Results, folders) if r.status != COMPLETED]
    valid = confirmation_of(best)
    if results := valid.results if valid else unfinished[-1] if unfinished else None:
        note, now = results.labels.note, results.spec
        return Stage(results.name, results.status, note, now, results, best)
    side = _side(spec)
    planned = confirming_spec(best, top=side, seeds=side)
    reason = f"the best {side} of {best.name} with {side} fresh seeds each, since one may be luck"
    return Stage(planned.name, "planned", reason, planned, None, best)


def _after(results: Results, search: dict[str, Any]) -> dict[str, Any]:
    """What a later stage takes from an earlier one, searched by `search`."""
    plain = results.spec.plain()
    paths = ("scheduler.max_t", "training.epochs", "search.space", "search.forbid")
    kept = {path: value for path in paths if (value := get_at(plain, path)) is not None}
    return {"search": search, **kept}


def _changed(spec: ExperimentSpec, changes: dict[str, Any]) -> ExperimentSpec:
    return build_spec(with_values(spec.plain(exclude_unset=True), changes.items()))


def _share(spec: ExperimentSpec, share: float) -> dict[str, Any]:
    count, limit = spec.num_samples, spec.time_budget_s
    return {"num_samples": count and int(count * share), "time_budget_s": limit and limit * share}


def _side(spec: ExperimentSpec) -> int:
    """How many leaders are confirmed, and with how many seeds each."""
    return 3 if (spec.num_samples or 0) >= _LONG else 2
