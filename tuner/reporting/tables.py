"""Plain-text answers of `tuner ls` and `tuner best`: 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tuner.listing import Listed
from tuner.reporting.confirmation_text import confirmed_lines
from tuner.reporting.wording import aligned, number, printable

_HEAD = ("NAME", "STATUS", "TRIALS", "FAILED", "BEST", "STARTED")


def experiments_table(listed: Sequence[Listed]) -> str:
    """One line an experiment, columns aligned; says so where there is none."""
    if not listed:
        return "no experiments yet; start with: tuner run digits"
    return "\n".join(aligned([_HEAD, *map(_row, listed)]))


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
    started = (
        ""
        if entry.started is None
        else datetime.fromtimestamp(entry.started).isoformat(" ", "minutes")
    )
    return (
        printable(entry.name),
        entry.status,
        str(sum(entry.counts.values())),
        str(entry.counts["failed"]),
        best,
        started,
    )
