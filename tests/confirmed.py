"""A search and the experiment that confirms it, as folders without Ray."""

import json
from pathlib import Path
from typing import Any

from synthetic import Writer, make_folder, read_document

from tuner.experiment.files import REFITTED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.confirmation import link
from tuner.experiment.results.results import Results
from tuner.search.retraining import build_confirm_spec, build_refit_spec
from tuner.search.run import describe
from tuner.spec.validation import validate

FOUND = {0.1: 0.90, 0.2: 0.95, 0.3: 0.93, 0.4: 0.80}  # the leaders are 1, 2, 0
SPACE = {"lr": "loguniform(0.001, 1)"}


def searched(folder: Path, values: dict[float, float], **spec: Any) -> Results:
    """A search whose trials had these accuracies: lr -> the best one; the last trial failed."""
    fields = {"search": {"strategy": "random", "space": SPACE}, **spec}
    writer = Writer(make_folder(folder, **fields))
    for number, (lr, value) in enumerate(values.items()):
        writer.trial(number, [value / 2, value], config={"lr": lr})
    writer.trial(len(values), [1.0], error=("nan", "m"), config={"lr": 0.9})
    writer.end()
    return Results(folder)


def retrained(
    search: Results, values: list[list[float | None]], *, end: str | None = "completed"
) -> Results:
    """The linked confirmation: values[leader][seed]; None is a trial that failed."""
    spec = build_confirm_spec(search, top=len(values), seeds=len(values[0]))
    ExperimentFolder(spec.folder).create(describe(spec))
    link(search, spec.name)
    writer = Writer(spec.folder)
    numbers = ((i, j) for i in range(len(values)) for j in range(len(values[0])))
    for number, (i, j) in enumerate(numbers):
        varied = {"config": spec.search.configs[i], "seed": spec.search.seeds[j]}  # type: ignore[attr-defined]
        trial_id = f"{number:05}"
        writer.add("trial_started", trial_id=trial_id, **varied)
        value = values[i][j]
        if value is None:
            error = {"kind": "nan", "message": "m"}
            writer.add("trial_ended", trial_id=trial_id, status="failed", error=error)
            continue
        for epoch, reported in enumerate((value - 0.1, value), start=1):
            metrics = {"val_accuracy": reported}
            writer.add("result", trial_id=trial_id, epoch=epoch, metrics=metrics)
        writer.checkpoint(trial_id, 2, f"weights of {trial_id}".encode())
        writer.add("trial_ended", trial_id=trial_id, status="completed")
    if end:
        writer.end(end)
    else:
        writer.kill()
    return Results(spec.folder)


def refitted(
    search: Results, *, end: str = "completed", linked: bool = False
) -> Results:
    """The refit of a search, whose trial has ended so after two epochs."""
    spec = validate(build_refit_spec(search))
    ExperimentFolder(spec.folder).create(describe(spec))
    if linked:
        link(search, spec.name, REFITTED)
    writer = Writer(spec.folder)
    reports = [
        {"epochs_trained": 1, "train_loss": 0.1},
        {"epochs_trained": 2, "train_loss": 0.3},
    ]
    writer.trial(0, reports, config=spec.search.configs[0], end=end)  # type: ignore[attr-defined]
    for epoch in (1, 2):
        writer.checkpoint("00000", epoch)
    writer.end()
    return Results(spec.folder)


def lengthened(search: Results) -> Results:
    """The search as one of longer trials, as a resume makes it."""
    path = search.folder / "experiment.json"
    document = read_document(path)
    document["spec"]["scheduler"]["max_t"] *= 2
    path.write_text(json.dumps(document))
    return Results(search.folder)
