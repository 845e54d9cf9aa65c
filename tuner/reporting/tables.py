"""Tables for the terminal, and the curve of one trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.experiment.events import ENDED, status_text
from tuner.experiment.results.listing import trial_row
from tuner.experiment.results.results import Results
from tuner.experiment.trials import TrialRecord
from tuner.spec.plain_values import flat, get_at
from tuner.spec.sections import Objective
from tuner.wording import aligned, amount_of, duration, moment, number, printable, shorten

if TYPE_CHECKING:
    from tuner.cluster.jobs import Job
    from tuner.experiment.results.listing import Listed
    from tuner.reporting.doctor import Finding


_EXPERIMENTS = ("name", "status", "trials", "failed", "best", "started")
_LABELS = ("tags", "note")  # shown where there are any
_LONGEST_BEST = 50
_LONGEST_PROBLEM = 100  # characters


def experiments_table(experiments: Sequence[Listed], columns: Sequence[str] | None = None) -> str:
    """One line for each experiment. columns: names of `Listed.row`; by default the usual ones."""
    if not experiments:
        return "no experiments yet; start with: tuner run digits"
    shown = [experiment.row() for experiment in experiments]
    labels = (name for name in _LABELS if any(row[name] for row in shown))
    names = [*_EXPERIMENTS, *labels] if columns is None else columns
    rows = [
        tuple(_cell(experiment, row, name) for name in names)
        for experiment, row in zip(experiments, shown, strict=True)
    ]
    return _table(tuple(name.upper() for name in names), rows)


def _cell(experiment: Listed, row: Mapping[str, Any], name: str) -> str:
    value = get_at(row, name)
    if name == "started" and experiment.problem:
        return shorten(experiment.problem.replace(f"{experiment.folder}/", ""), _LONGEST_PROBLEM)
    if value is None:
        return ""
    if name == "best":
        return shorten(f"{experiment.metric} {number(value)}", _LONGEST_BEST)
    if name == "time":
        return duration(value)
    text = " ".join(value) if isinstance(value, list) else number(value)
    return shorten(text, _LONGEST_BEST)


def jobs_table(jobs: Sequence[Job], *, now: float) -> str:
    """One line for each job. now: seconds since the epoch."""
    if not jobs:
        return "no jobs yet; start one with: tuner submit digits"
    rows = []
    for job in jobs:
        started = took = ""
        if job.started is not None:
            started = moment(job.started)
            took = duration((job.ended or now) - job.started)
        rows.append((job.job_id, job.status.lower(), started, took, job.command))
    return _table(("ID", "STATUS", "STARTED", "TOOK", "COMMAND"), rows)


def findings_text(findings: Sequence[Finding]) -> str:
    """A row for each finding, a line of advice for each that is not "ok", and the verdict."""
    rows = [tuple(map(printable, (f.topic, f.name, f.level, f.found))) for f in findings]
    faults = [finding for finding in findings if finding.level != "ok"]
    advice = [f"{f.level}  {printable(f'{f.topic}, {f.name}: {f.advice}')}" for f in faults]
    warnings = f", {amount_of(len(faults), 'warning')}" if faults else ""
    verdict = f"Nothing would break a search{warnings}."
    if broken := sum(fault.level == "broken" for fault in faults):
        verdict = f"A search would not work: {amount_of(broken, 'finding')}."
    return "\n".join([*aligned(rows), "", *advice, *([""] if advice else []), verdict])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(aligned([tuple(map(printable, row)) for row in (head, *rows)]))


_LONGEST = 24  # characters of a value
_PLOT_WIDTH = 60
_PLOT_HEIGHT = 12


def front_text(results: Results) -> str:
    goals = ", ".join(f"{goal.better} {goal.metric}" for goal in results.objective.goals)
    count = amount_of(len(results.front), "trial")
    rows = [trial_row(results, trial) for trial in results.front]
    head = f"Front of {count}, which no trial beats in every objective: {printable(goals)}"
    return f"{head}\n{trials_table(rows, results.objective)}"


def trials_table(rows: Sequence[Mapping[str, Any]], objective: Objective) -> str:
    """A line for each row of `trial_rows`, with the hyperparameters that differ between them."""
    if not rows:
        return "no trials"
    configs = [flat(row["config"], ".") for row in rows]
    varying = [
        name
        for name in names_in(configs)
        if len({repr(config.get(name)) for config in configs}) > 1
    ]
    goals = [goal.metric for goal in objective.goals]
    head = ("TRIAL", "STATUS", *map(str.upper, goals), "EPOCH", "OF", "TIME", *varying)
    return _table(head, [trial_cells(row, goals, varying) for row in rows])


def names_in(configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of the hyperparameters of flat configs, in order."""
    return list(dict.fromkeys(name for config in configs for name in config))


def trial_cells(
    row: Mapping[str, Any], goals: Sequence[str], names: Sequence[str]
) -> tuple[str, ...]:
    """A row of `trial_rows` in words: id, status, metrics, epochs, time, hyperparameters."""
    config = flat(row["config"], ".")
    status = row["error"] or row["status"] + _uncounted_text(row)
    values = ("" if row["epoch"] is None else _text(row.get(goal)) for goal in goals)
    spent = (_text(row["epoch"]), str(row["epochs"]), duration(row["time"]))
    return (row["trial_id"], status, *values, *spent, *(_text(config.get(n)) for n in names))


def listed_words(experiment: Listed) -> dict[str, str]:
    """The numbers of an experiment as the list of the page shows them, in words."""
    counts = experiment.counts
    ended = sum(counts[status] for status in ENDED)
    begun = sum(counts.values())
    of_all = f" / {experiment.total}" if (experiment.total or 0) >= max(begun, 1) else ""
    has_goal = experiment.metric is not None
    return {
        "standing": status_text(experiment.status, experiment.ended_by),
        "share": f"{ended}{of_all}",
        "goal": f"{experiment.metric} ({experiment.mode})" if has_goal else "",
        "best": "" if experiment.best is None else number(experiment.best),
        "time": "" if experiment.searched_s is None else duration(experiment.searched_s),
        "started": "" if experiment.started is None else moment(experiment.started),
    }


def _uncounted_text(row: Mapping[str, Any]) -> str:
    """Why the values of a trial do not count, to follow its status, or ""."""
    early = f", before epoch {row['before_epoch']}" if "before_epoch" in row else ""
    return ", beyond limits" if row.get("beyond_limits") else early


def trial_text(results: Results, trial: TrialRecord) -> str:
    """One trial: how it ended, its config, and its curve of the objective."""
    error = f", {trial.error.kind}: {trial.error.message}" if trial.error else ""
    config = aligned([(f"  {printable(k)}", _text(v)) for k, v in flat(trial.config, ".").items()])
    head = f"trial {trial.trial_id}: {trial.status} after {duration(trial.duration_s)}{error}"
    if answer := results.history.steered.answer(trial.ended_by):
        head += f", as asked by {printable(answer.by) or 'a control'}"
    return "\n".join([shorten(head, 200), *config, "", *plot(trial, results.metric)])


def plot(trial: TrialRecord, metric: str) -> Iterator[str]:
    """The values of `metric` over the epochs, as dots in lines of at most 80 characters."""
    values = trial.values(metric)
    if not values:
        yield f"{printable(metric)}: nothing reported"
        return
    low = min(value for _, value in values)
    high = max(value for _, value in values)
    first = values[0][0]
    last = values[-1][0]
    height = _PLOT_HEIGHT if high > low else 1
    width = min(_PLOT_WIDTH, max(2 * (last - first) + 1, 2))
    grid = [[" "] * width for _ in range(height)]
    for epoch, value in values:
        x = round((epoch - first) / max(1, last - first) * (width - 1))
        y = round((high - value) / (high - low) * (height - 1)) if high > low else 0
        grid[y][x] = "*"
    labels = [number(high), *[""] * (height - 2), *([number(low)] if height > 1 else [])]
    margin = max(map(len, labels))
    yield printable(metric)
    for label, line in zip(labels, grid, strict=True):
        yield f"{label:>{margin}} |{''.join(line)}".rstrip()
    axis = f"{first}{last:>{max(width - len(str(first)), 1)}}" if last > first else str(first)
    yield f"{'':>{margin}}  {axis}  epoch"


def _text(value: object) -> str:
    return "" if value is None else shorten(number(value), _LONGEST)
