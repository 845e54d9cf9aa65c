"""Plain-text answers of `tuner ls`, `tuner jobs` and `tuner best`, no colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tuner.reporting.confirmation_text import confirmed_lines
from tuner.results.listing import Listed
from tuner.wording import aligned, duration, number, printable

if TYPE_CHECKING:
    from tuner.cluster.jobs import Job

_JOBS_HEAD = ("ID", "STATUS", "STARTED", "TOOK", "COMMAND")
_HEAD = ("NAME", "STATUS", "TRIALS", "FAILED", "BEST", "STARTED")


def experiments_table(listed: Sequence[Listed]) -> str:
    """One line an experiment, columns aligned; says so where there is none."""
    if not listed:
        return "no experiments yet; start with: tuner run digits"
    return "\n".join(aligned([_HEAD, *map(_row, listed)]))


def jobs_table(listed: Sequence[Job], *, now: float) -> str:
    """One line a job, columns aligned; says so where there is none. now: seconds."""
    if not listed:
        return "no jobs yet; start one with: tuner submit digits"
    rows = [_JOBS_HEAD]
    for job in listed:
        took = "" if job.started is None else duration((job.ended or now) - job.started)
        rows.append((job.job_id, job.status.lower(), _moment(job.started), took, job.command))
    return "\n".join(aligned([tuple(map(printable, row)) for row in rows]))


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


def best_text(best: Mapping[str, Any]) -> str:
    """One trial as `Results.best_json` gives it."""
    head = f"trial {best['trial_id']}, epoch {best['epoch']}, {best['shown']}"
    sections = {"metrics": best["metrics"], "config": best["config"]}
    width = max((len(name) for section in sections.values() for name in section), default=0)
    lines = [head]
    if best["shown"] == "confirmed":
        lines += confirmed_lines(best)
    for title, section in sections.items():
        lines.append(f"  {title}")
        lines += [f"    {printable(k):<{width}}  {number(v)}" for k, v in section.items()]
    lines.append(f"  checkpoint  {best['checkpoint'] or 'none kept at this epoch'}")
    return "\n".join(lines)


def _row(entry: Listed) -> tuple[str, ...]:
    best = "" if entry.best is None else f"{entry.metric} {number(entry.best)}"
    return (
        printable(entry.name),
        entry.status,
        str(sum(entry.counts.values())),
        str(entry.counts["failed"]),
        best,
        _moment(entry.started),
    )
