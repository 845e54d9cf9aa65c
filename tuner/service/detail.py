"""The parts of an experiment on the page: values and curves of trials, a log, the report."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError
from tuner.experiment.events import FAILED, RUNNING
from tuner.experiment.files import inside, open_plain
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_so_far, check
from tuner.experiment.trials import TrialRecord
from tuner.service.watch import Followed
from tuner.wording import printable_lines

_MAX_DOTS = 1500
_CURVES_EACH = 16  # of the best trials, of those that run, and of the latest
_MAX_LOG_BYTES = 1 << 18
_MAX_REPORTS = 4  # pages of five megabytes
_MAKING = threading.Lock()  # a report takes seconds, and memory
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


def curves_json(
    results: Followed, metric: str | None = None, *, each: int = _CURVES_EACH
) -> dict[str, Any]:
    """The metric and mode; a dot for each trial, the best so far, and curves of chosen trials.

    metric: that of the curves, by default the objective's. A dot is [number, value, status]; of
    many trials only some have one. best_so_far has [number, value] of each trial that was better
    than all before it. metrics: all that were reported. Raises UsageError for an unknown metric.
    """
    metrics = results.metrics
    if metric is not None:
        check("metric", metric, [results.metric, *metrics])
    metric = metric or results.metric
    trials = results.trials.values()
    usable = [(int(t.trial_id), t.best.value) for t in trials if t.best and t.status != FAILED]
    dots = [(int(t.trial_id), t.best.value, t.status) for t in trials if t.best]
    return {
        "metric": results.metric,
        "mode": results.mode,
        "metrics": metrics,
        "dots": dots[:: max(1, -(-len(dots) // _MAX_DOTS))],
        "best_so_far": best_so_far(usable, results.objective),
        "of": metric,
        "curves": [
            {"trial_id": t.trial_id, "status": t.status, "points": t.values(metric)}
            for t in _chosen(results, each)
        ],
    }


def _chosen(results: Followed, each: int) -> Sequence[TrialRecord]:
    """The best trials, the running ones, and the latest; each once."""
    running = results.history.of_status(RUNNING)
    latest = list(results.trials.values())[: -each - 1 : -1]
    best = results.top(each)
    by_id = {trial.trial_id: trial for trial in [*best, *running[-each:], *latest]}
    return list(by_id.values())


def log_of(results: Results, trial: TrialRecord, *, most: int = _MAX_LOG_BYTES) -> str:
    """The last lines of a trial's output, or "".

    Colours are removed, and progress bars show their last state. Only a plain file in the
    experiment's folder is read.
    """
    path = results.log_path(trial)
    try:
        path = inside(results.folder, path.relative_to(results.folder).as_posix())
        with os.fdopen(open_plain(path), "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - most)
            file.seek(start)
            data = file.read(most)
    except (OSError, CheckpointError):
        return ""
    if start:
        data = b"...\n" + data.partition(b"\n")[2]
    text = _COLOURS.sub("", data.decode(errors="replace"))
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return printable_lines("\n".join(lines))


def report_of(folder: Path) -> str:
    """The report of the experiment in `folder`, as `tuner report` writes it; the last are kept."""
    with _MAKING:
        return _report(folder, ExperimentFolder(folder).mark())


@lru_cache(_MAX_REPORTS)
def _report(folder: Path, mark: Hashable) -> str:
    from tuner.reporting.html import report_page
    from tuner.reporting.report import Report

    return report_page(Report(Results(folder)), images=False)
