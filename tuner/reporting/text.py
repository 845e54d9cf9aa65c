"""What an experiment came to, as plain text for stdout: 80 columns, no colour."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.places import shown
from tuner.record.events import COMPLETED, INTERRUPTED
from tuner.record.folder import storage_folder
from tuner.record.history import TrialRecord
from tuner.results.results import Results
from tuner.trial.memory import SUSPECT, first_growth
from tuner.wording import (
    amount_of,
    duration,
    number,
    printable,
    program,
    shorten,
    with_error,
)

_WIDTH = 80


def summary(
    results: Results,
    test: Mapping[str, Any] | None = None,
    *,
    confirmed: Mapping[str, Any] | None = None,
) -> str:
    """The experiment in a screen of text, without a newline at the end.

    How many trials ended how; the best trial with its validation metrics, the test_* of `test`
    (held-out split), and its config; `confirmed`, as `show_json` has it; failures by kind, each
    with its first message and log; memory that only grew; where the results are and how to look at
    them.
    """
    sections = [
        _head(results),
        _best(results, test or {}),
        _confirmed(results.metric, confirmed),
        _failures(results),
        _leaks(results),
        _ways_on(results),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def command_name(results: Results) -> str:
    """What to give a command as NAME: the name, or the folder where that lies elsewhere."""
    return folder_name(results.folder)


def folder_name(folder: Path) -> str:
    """What to give a command as NAME for the experiment in `folder`."""
    usual = storage_folder(None) / folder.name
    if folder.resolve() == usual.resolve():
        return shlex.quote(folder.name)
    return shlex.quote(shown(folder))


def _head(results: Results) -> list[str]:
    took = results.history.duration_s
    preposition = "in" if results.status == COMPLETED else "after"
    time = f" {preposition} {duration(took)}" if took is not None else ""
    counts = ", ".join(f"{count} {status}" for status, count in results.counts.items() if count)
    trials = f"{len(results.trials)} trial{'' if len(results.trials) == 1 else 's'}"
    name = printable(results.name)
    return [f"{name}: {results.status}{time}", f"{trials}: {counts}" if counts else trials]


def _best(results: Results, test: Mapping[str, Any]) -> list[str]:
    try:
        trial = results.get_best_trial()
    except NoUsableTrialError as error:
        return [printable(str(error))]
    best = results.best_json(trial)
    metrics = {name: number(value) for name, value in _validation(best["metrics"], results.metric)}
    measured = {name: value for name, value in test.items() if name.startswith("test_")}
    metrics |= {name: f"{number(value)}  (held-out test split)" for name, value in measured.items()}
    config = {printable(name): shorten(number(v), 60) for name, v in trial.config.items()}
    width = max(map(len, [*metrics, *config]), default=0)
    return [
        f"Best trial {trial.trial_id}, epoch {best['epoch']} of {trial.last_epoch}, {trial.status}",
        *(f"  {name:<{width}}  {value}" for name, value in metrics.items()),
        "Its config",
        *(f"  {name:<{width}}  {value}" for name, value in config.items()),
    ]


def _validation(metrics: Mapping[str, float], objective: str) -> Iterator[tuple[str, float]]:
    """The objective, then what else was measured on the validation split."""
    if objective in metrics:
        yield printable(objective), metrics[objective]
    for name, value in metrics.items():
        if name.startswith("val_") and name != objective:
            yield printable(name), value


def _confirmed(metric: str, told: Mapping[str, Any] | None) -> list[str]:
    if told is None:
        return []
    mean = with_error(told["mean"], told["standard_error"])
    seeds = amount_of(told["seeds"], "seed")
    return wrap(
        f"Confirmed: trial {told['trial_id']}, {printable(metric)} {mean} ({seeds}), "
        f"searched {number(told['searched'])}",
        _WIDTH,
    )


def _failures(results: Results) -> list[str]:
    kinds: dict[str, list[TrialRecord]] = {}
    for trial in results.trials.values():
        if trial.error is not None:
            kinds.setdefault(trial.error.kind, []).append(trial)
    lines = ["Failed trials"] if kinds else []
    for kind, trials in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        first = trials[0]
        message = first.error.message if first.error else ""
        head = f"  {len(trials)} {printable(kind)}, first trial {first.trial_id}: "
        lines.append(head + shorten(message, max(_WIDTH - len(head), 20)))
        log = results.log_path(first)
        if log.exists():
            lines.append(f"    {_shown(log)}")
    return lines


def _leaks(results: Results) -> list[str]:
    grown = {
        trial_id: first_growth([value for _, value in trial.values("memory_mib")])
        for trial_id, trial in results.trials.items()
    }
    leaking = {trial_id: growth for trial_id, growth in grown.items() if growth is not None}
    if not leaking:
        return []
    first, growth = next(iter(leaking.items()))
    count = f"{len(leaking)} trial{'' if len(leaking) == 1 else 's'}"
    return [
        "Memory that grew epoch after epoch",
        f"  {count}, first trial {first}: by {growth:.1f} MiB an epoch",
        *wrap(f"What is kept is {SUSPECT}", _WIDTH, initial_indent="  ", subsequent_indent="  "),
    ]


def _ways_on(results: Results) -> list[str]:
    name = command_name(results)
    lines = [
        f"Results      {_shown(results.folder)}",
        f"Report       {program()} report {name}",
        f"TensorBoard  {program()} tensorboard {name}",
    ]
    if results.status == INTERRUPTED:
        lines.append(f"Go on        {program()} resume {name}")
    return lines


def _shown(path: Path) -> str:
    return printable(shown(path))
