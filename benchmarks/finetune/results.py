"""The measurements of fine-tuning: kept as JSON lines, shown as a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.finetune.peers import PEERS
from tuner.experiment.results.statistics import wilson

Row = dict[str, Any]


def read(path: Path | None) -> list[Row]:
    """The rows of a file, or none; a last line that a kill cut off is left out."""
    if path is None or not path.is_file():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def append(path: Path | None, row: Row) -> None:
    if path is not None:
        cut_off = path.is_file() and not path.read_bytes().endswith(b"\n")
        with path.open("a") as file:
            file.write("\n" * cut_off + json.dumps(row) + "\n")


def budget_of(rows: Iterable[Row], name: str, size: int, seed: int) -> float:
    """The CPU seconds of tuner's search and refit on the same photos; SystemExit without one."""
    spent = {
        row["line"]: row.get("refit", row)["cpu_s"]
        for row in rows
        if (row["set"], row["size"], row["seed"]) == (name, size, seed)
    }
    for line in ("weights", "default"):
        if line in spent:
            return spent[line]
    raise SystemExit("a peer gets the CPU seconds of tuner: measure `weights` or `default`, too")


def table(rows: Sequence[Row], name: str, size: int, lines: Sequence[str]) -> str:
    """Markdown: a row for each line, with means over the seeds.

    The interval is that of one test set, also of several seeds: these share their test photos.
    """
    of_line: dict[str, list[Row]] = {}
    for line in lines:
        measured = [r for r in rows if (r["set"], r["size"], r["line"]) == (name, size, line)]
        of_line[line] = measured
        of_line[f"{line}, refit"] = [row | row["refit"] for row in measured if "refit" in row]
    of_line = {line: measured for line, measured in of_line.items() if measured}
    errors = {line: 1 - mean(r["accuracy"] for r in measured) for line, measured in of_line.items()}
    beside = [line for line in of_line if line in PEERS]
    text = [
        f"\n| {name}, {size} a class | test accuracy (95 %) | "
        + "".join(f"error / {peer} | " for peer in beside)
        + "CPU s | wall s | trials | seeds | floor |",
        "|---" * (7 + len(beside)) + "|",
    ]
    for line, measured in of_line.items():
        low, high = wilson(1 - errors[line], measured[0]["test"])
        ratios = "".join(f"{errors[line] / max(errors[p], 1e-9):.2f} | " for p in beside)
        text.append(
            f"| {line} | {1 - errors[line]:.3f} ({low:.3f} to {high:.3f}) | {ratios}"
            f"{mean(r['cpu_s'] for r in measured):.0f} | "
            f"{mean(r['wall_s'] for r in measured):.0f} | "
            f"{mean(r.get('trials', 0) for r in measured):.0f} | {len(measured)} | "
            f"{measured[0]['floor']:.3f} |"
        )
    return "\n".join(text)


def best_named(rows: Iterable[Row]) -> str:
    """How often the named trial is within the interval of the trial that is best on the test."""
    searches = [
        (row["accuracies"][row["named"]], max(row["accuracies"].values()), row["test"])
        for row in rows
        if "named" in row
    ]
    behind = [best - named for named, best, _ in searches]
    within = sum(named >= wilson(best, count)[0] for named, best, count in searches)
    return (
        f"the named best is within the 95 % interval of the best trial in {within} of "
        f"{len(searches)} searches, and {mean(behind):.3f} behind it, at most {max(behind):.3f}"
    )
