"""Finished searches of all kinds, ordinary and odd ones, for what is told of them."""

import random
from pathlib import Path
from typing import Any

from synthetic import Clock, Writer, make_folder

from tuner.experiment.results.results import Results

SPACE = {
    "lr": "loguniform(0.001, 1)",
    "momentum": "uniform(0, 1)",
    "width": "choice([16, 32])",
}
TAGS = "<b>bold</b></script><script>alert(1)</script>"
ODD = (
    *("no_trial", "one_trial", "no_report", "all_failed", "running", "no_scheduler"),
    *(
        "categorical",
        "conditional",
        "diverged",
        "one_config",
        "foreign",
        "hostile",
        "extreme",
    ),
)


def search(folder: Path, trials: int = 30, *, seed: int = 0, **spec: Any) -> Results:
    """An ASHA search: the nearer lr is to 0.1, the better; the rest does not matter.

    Every third trial is run to its end, the others are stopped at epoch 1; trial 4 fails.
    """
    chance = random.Random(seed)
    writer = Writer(
        make_folder(folder, **{"search": _random(SPACE), "seed": seed} | spec)
    )
    for number in range(trials):
        distance = chance.uniform(0, 2)
        config = {
            "lr": 10 ** (-1 + distance * chance.choice([-1, 0.5])),
            "momentum": chance.random(),
            "width": chance.choice([16, 32]),
        }
        values = [0.9 - 0.3 * distance + 0.01 * epoch for epoch in range(10)]
        metrics = {"peak_memory_mib": 400.0 + config["width"], "images_per_s": 5000.0}
        reports = [{"val_accuracy": value, **metrics} for value in values]
        if number == 4:
            writer.trial(
                number, reports[:2], error=("oom", "out of memory"), config=config
            )
        elif number % 3:
            writer.trial(number, reports[:1], end="stopped", config=config)
        else:
            writer.trial(number, reports, config=config)
    writer.end()
    return Results(folder)


def interrupted(folder: Path, **spec: Any) -> Results:
    """A search of two trials, with ten hours between its first run and its second one."""
    clock = Clock()
    writer = Writer(make_folder(folder, **spec), clock=clock)
    writer.trial(0, [0.1, 0.2])
    writer.end("interrupted")
    clock.now += 36_000
    writer = Writer(folder, resumed=True, clock=clock)
    writer.trial(1, [0.2, 0.3])
    writer.end()
    return Results(folder)


def odd(folder: Path, kind: str) -> Results:
    """An experiment of one of the kinds `ODD`."""
    chance = random.Random(0)
    values = [chance.random() for _ in range(15)]
    spec: dict[str, Any] = {}
    trials: list[tuple[list[Any], dict[str, Any], dict[str, Any]]] = []
    match kind:
        case "one_trial":
            trials = [([0.5, 0.6], {"lr": 0.1}, {})]
        case "no_report":
            trials = [([], {"lr": 0.1}, {})] * 2
        case "all_failed":
            trials = [
                ([0.5] * n, {"lr": 0.1}, {"error": ("nan", TAGS)}) for n in range(3)
            ]
        case "running":
            trials = [
                ([0.5] * n, {"lr": 0.1 / (n + 1)}, {"end": None}) for n in range(3)
            ]
        case "no_scheduler":
            spec = {"scheduler": False}
            trials = [([v, v], {"lr": v}, {}) for v in values]
        case "categorical":
            space = {
                "a": "choice(['x', 'y'])",
                "b": "choice([True, False])",
                "l": "choice([[1], [2]])",
            }
            spec = {"search": _random(space)}
            trials = [
                ([v], {"a": "xy"[v > 0.5], "b": v > 0.3, "l": [1 + (v > 0.7)]}, {})
                for v in values
            ]
        case "conditional":
            branches = (
                "{'name': 'sgd', 'lr': loguniform(0.001, 1)}, {'name': 'adam'}, None"
            )
            spec = {"search": _random({"opt": f"choice([{branches}])"})}
            options = [
                {"name": "sgd", "lr": 0.1},
                {"name": "sgd", "lr": 0.2},
                {"name": "adam"},
                None,
            ]
            trials = [([v], {"opt": options[n % 4]}, {}) for n, v in enumerate(values)]
        case "diverged":
            spec = {"metric": "val_loss", "mode": "min"}
            losses = [1e30 if n % 5 == 0 else v for n, v in enumerate(values)]
            trials = [([{"val_loss": v}], {"lr": 0.01 + v / 1e30}, {}) for v in losses]
        case "one_config":
            trials = [([v], {"lr": 0.1}, {}) for v in values]
        case "foreign":
            trials = [
                ([v], {"lr": [100, True, "q"][n % 3]}, {}) for n, v in enumerate(values)
            ]
        case "extreme":  # numbers at the ends of what a journal takes
            large = 10**300
            n = range(12)
            trials = [
                ([large * (-1) ** i, i], {"lr": large - i, "n": 10.0**-i}, {})
                for i in n
            ]
        case "hostile":
            spec = {
                "search": _random(
                    {TAGS.replace("/", ""): "choice(['<i>', '</script>'])"}
                )
            }
            name = TAGS.replace("/", "")
            trials = [
                ([v], {name: ["<i>", "</script>"][n % 2]}, {})
                for n, v in enumerate(values)
            ]
    writer = Writer(make_folder(folder, **spec))
    first = 10**30 if kind == "extreme" else 0
    for number, (reports, config, how) in enumerate(trials, start=first):
        writer.trial(number, reports, config=config, **how)
    if kind == "running":
        return Results(folder)
    writer.end()
    return Results(folder)


def _random(space: dict[str, str]) -> dict[str, Any]:
    return {"strategy": "random", "space": space}
