"""Fine-tuning on folders of photos: accuracy and CPU seconds, beside plain torch.

    python -m benchmarks.finetune --cache DIR [--sets objects,fine] [--sizes 20,60]
                                  [--lines default,weights,fastai] [--seeds 3] [--out FILE]
                                  [--add NAME 'KEY=VALUE ...'] [--refit LINE] [--every-trial]

Makes everything itself: photographs (photos.py), a network pretrained on other classes of them
(network.py, some minutes once for each --cache), and the searches: `tuner run` with the arguments
of each of LINES (lines.py), then the PEERS in plain torch (peers.py), each of which gets the CPU
seconds that tuner's line `weights` used, or else `default`. Accuracies are of at least 100 test
photos a class, which no search sees.

tuner holds out 15 % of the folder to choose a trial, and 15 % as its own test split; the peers hold
out 15 %. --add measures tuner with further arguments under a name; {weights} in them stands for the
file of the pretrained network. --refit trains the best of a line again on all photos but the test
split, and the peers get the CPU seconds of both. --every-trial measures each trial of tuner's lines
on the test photos, and says how often the named best is within the interval of the best. --out
appends a JSON line for each measurement, and what stands there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.finetune import lines, network, peers, photos, results

KEY = ("set", "size", "seed", "line")  # of a measurement
TEST = 100  # photos a class


def main() -> int:
    options = arguments()
    torch.set_num_threads(1)
    for name, text in options.add:
        lines.LINES[name] = tuple(text.split())
        options.lines.append(name)
    print(heading(options), flush=True)
    weights = network.pretrained(options.cache, lambda line: print(line, file=sys.stderr))
    rows = results.read(options.out)
    known = {tuple(row[key] for key in KEY) for row in rows}
    for name in options.sets:
        for size in options.sizes or photos.SETS[name].sizes:
            for seed in range(options.seeds):
                for line in options.lines:
                    if (name, size, seed, line) in known:
                        continue
                    key = dict(zip(KEY, (name, size, seed, line), strict=True))
                    row = {**key, **measure(options, weights, rows, **key)}
                    rows.append(row)
                    results.append(options.out, row)
                    print(json.dumps(row), file=sys.stderr, flush=True)
            print(results.table(rows, name, size, options.lines), flush=True)
    if options.every_trial:
        print(results.best_named(rows))
    return 0


def arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return text.split(",")

    def sizes(text: str) -> list[int]:
        return [int(size) for size in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder of photos and weights")
    parser.add_argument("--sets", type=names, default=list(photos.SETS))
    parser.add_argument("--sizes", type=sizes, help="training photos a class")
    parser.add_argument("--lines", type=names, default=[*lines.LINES, *peers.PEERS])
    parser.add_argument("--add", nargs=2, action="append", default=[], metavar=("NAME", "ARGS"))
    parser.add_argument("--refit", metavar="LINE", help="a line of tuner, such as weights")
    parser.add_argument("--every-trial", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON lines; those there are not measured again")
    options = parser.parse_args()
    for what, chosen, choices in (
        ("set", options.sets, [*photos.SETS]),
        ("line", options.lines, [*lines.LINES, *peers.PEERS]),
    ):
        unknown = set(chosen) - set(choices)
        if unknown:
            parser.error(f"unknown {what} {unknown.pop()!r}; available: {', '.join(choices)}")
    return options


def heading(options: argparse.Namespace) -> str:
    """The command, the hardware and the versions."""
    return "\n".join(
        [
            f"python -m benchmarks.finetune {' '.join(sys.argv[1:])}",
            f"{len(os.sched_getaffinity(0))} CPUs, {platform.machine()}, {platform.system()}, load "
            f"{os.getloadavg()[0]:.1f}; python {platform.python_version()}, "
            f"torch {version('torch')}, ray {version('ray')}; n = {options.seeds} seeds",
            *(f"{n}: {' '.join(lines.LINES[n]) or '-'}" for n in options.lines if n in lines.LINES),
        ]
    )


def measure(
    options: argparse.Namespace,
    weights: Path,
    rows: Iterable[dict[str, Any]],
    *,
    set: str,
    size: int,
    seed: int,
    line: str,
) -> dict[str, Any]:
    """One search, and the test accuracy of its model."""
    cache: Path = options.cache
    folder = photos.write_training(cache / f"{set}_{size}_{seed}", set, size, seed)
    test = photos.write_test(cache / f"{set}_test", set, TEST)
    about = {"test": TEST * len(photos.SETS[set].kinds), "floor": 1 / len(photos.SETS[set].kinds)}
    if line in lines.LINES:
        with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as storage:
            how = {"seed": seed, "storage": Path(storage), "every_trial": options.every_trial}
            how["refit"] = line == options.refit
            return {**about, **lines.run_line(line, folder, test, weights, **how)}
    began = time.monotonic()
    budget = results.budget_of(rows, set, size, seed)
    model, like, summary = peers.search(line, folder, weights, budget_cpu_s=budget, seed=seed)
    wall_s = time.monotonic() - began
    measured = network.Photos(*photos.read_folder(test, network.PX), like=like)
    return {**about, "accuracy": network.accuracy(model, measured), "wall_s": wall_s, **summary}


if __name__ == "__main__":
    sys.exit(main())
