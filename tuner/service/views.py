"""What the page shows, in words: tiles, tables, sections and figures.

Numbers are written as `tuner show` writes them: the page formats none. A section is a dict with a
title, and lines, rows of texts after a head, or pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from tuner.errors import UsageError
from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.confirmation import find_refit
from tuner.experiment.results.measured_tests import read_best_test, read_trial_test
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_report
from tuner.experiment.results.split_details import (
    CLASS_HEAD,
    MISTAKES,
    build_class_table,
)
from tuner.experiment.trials import TrialError, TrialRecord
from tuner.reporting import comparison_text
from tuner.reporting.commands import format_experiment_name
from tuner.reporting.control_text import format_dated_change
from tuner.reporting.figures import draw_comparison, draw_confusion, draw_trial
from tuner.reporting.figures.data import FigureData
from tuner.reporting.pictures import Picture, create_thumbnail, parse_pictures
from tuner.reporting.report import Report
from tuner.reporting.trial_tables import format_trial_cells, list_hyperparameters
from tuner.service.answers import Json
from tuner.service.dependencies import All, ChosenRows, Opened
from tuner.spec.plain_values import flatten
from tuner.wording import (
    find_program,
    format_amount,
    format_config,
    format_duration,
    format_number,
)

FEWEST = 2
MOST = 5  # experiments that are compared on one page
_LONGEST_CONFIG = 300  # characters beside a figure
Section = dict[str, Any]

router = APIRouter()
_OF_TRIAL = "/api/experiments/{name}/trials/{trial_id}"


def describe_experiment(results: Results) -> dict[str, Any]:
    """An experiment in words.

    tiles: (label, value, note), the best value first. best: its trial, or None. example: an
    expression. changes: by resumes, the last first.
    """
    report = Report(results)
    compared = "< 0.2" if results.mode == "min" else "> 0.9"
    return {
        "standing": results.status_text,
        "tiles": [*report.tiles],
        "best": report.best[0]["trial_id"] if report.best else None,
        "example": f"{results.metric} {compared}",
        "changes": [format_dated_change(change) for change in results.changes[::-1]],
    }


@router.get("/api/experiments/{name}/table")
def table(results: Opened, chosen: ChosenRows) -> Response:
    """The trials as `/trials` chooses them, in the words of a table; `total` match."""
    goals = [goal.metric for goal in results.objective.goals]
    names = list_hyperparameters(flatten(row["config"], ".") for row in chosen.rows)
    columns = [
        ("trial_id", "Trial"),
        ("status", "Status"),
        *((goal, goal) for goal in goals),
        ("epoch", "Best epoch"),
        ("epochs", "Epochs"),
        ("time", "Time"),
        *((name, name) for name in names),
    ]
    return Json(
        {
            "columns": [
                {"by": by, "title": title, "kind": "number" if at > 1 else ""}
                for at, (by, title) in enumerate(columns)
            ],
            "rows": [
                {
                    "trial_id": row["trial_id"],
                    "status": row["status"],
                    "cells": format_trial_cells(row, goals, names),
                }
                for row in chosen.rows
            ],
            "total": chosen.total,
        }
    )


@router.get(f"{_OF_TRIAL}/config", response_class=PlainTextResponse)
def config(results: Opened, trial_id: str) -> Response:
    """The config of a trial in a line."""
    plain = flatten(results.trial(trial_id).config, ".")
    return PlainTextResponse(format_config(plain, _LONGEST_CONFIG))


@router.get(f"{_OF_TRIAL}/view")
def view(
    results: Opened,
    trial_id: str,
    metric: Annotated[str | None, Query(description="of the curve")] = None,
) -> Response:
    """A trial in words, beside the best one."""
    trial = results.trial(trial_id)
    whose, measured = _find_measured(results, trial)
    figures = [
        draw_trial(FigureData(results), trial.trial_id, metric),
        draw_confusion(measured),
    ]
    error = trial.error
    return Json(
        {
            "trial_id": trial.trial_id,
            "status": trial.status,
            "line": (
                f"{format_amount(trial.last_epoch, 'epoch')}, {format_duration(trial.duration_s)}"
            ),
            "failure": [_describe_failure(error)] if error else [],
            "figures": [figure.as_dict() for figure in figures if figure],
            "metric": metric or results.metric,
            "metrics": results.metrics,
            "config": trial.config,
            "sections": [*_describe_trial(results, trial, whose, measured)],
        }
    )


@router.get(f"{_OF_TRIAL}/pictures/{{position}}")
def picture(results: Opened, trial_id: str, position: int) -> Response:
    """The thumbnail of one of the images that the trial takes for another class."""
    _, measured = _find_measured(results, results.trial(trial_id))
    for mistake in _list_mistakes(measured)[position : position + 1]:
        if jpeg := create_thumbnail(mistake):
            return Response(jpeg, media_type="image/jpeg")
    raise UsageError(f"no picture {position} of trial {trial_id} can be shown")


@router.get("/api/compare")
def compare(
    experiments: All, name: Annotated[list[str], Query(description="of an experiment")]
) -> Response:
    """Experiments side by side: what `tuner compare` says, figures, and their best configs."""
    if not FEWEST <= len(name) <= MOST:
        raise UsageError(
            f"a page compares {FEWEST} to {MOST} experiments, got {len(name)}"
        )
    comparison = Comparison([experiments.open_experiment(each) for each in name])
    return Json(
        {
            "headline": comparison_text.format_headline(comparison),
            "figures": [figure.as_dict() for figure in draw_comparison(comparison)],
            "sections": [*_describe_comparison(comparison)],
        }
    )


def _describe_failure(error: TrialError) -> Section:
    return {"title": f"Failure: {error.kind}", "lines": [error.message]}


def _describe_comparison(comparison: Comparison) -> Iterator[Section]:
    yield {
        "title": "Which is ahead",
        "lines": [*comparison_text.format_verdict(comparison)],
    }
    tables = (
        (
            "On average over the seeds",
            comparison_text.build_strategies_table(comparison),
        ),
        ("The experiments", comparison_text.build_entrants_table(comparison)),
    )
    for title, (head, *rows) in tables:
        yield {"title": title, "rows": [[text.capitalize() for text in head], *rows]}
    named = [(results.name, results.top(1)) for results in comparison.experiments]
    configs = {name: flatten(best[0].config, ".") for name, best in named if best}
    yield _compare_configs("Configs of the best trials", "hyperparameter", configs)
    if comparison.notes:
        yield {"title": "What else differs", "lines": list(comparison.notes)}


def _compare_configs(
    title: str, head: str, configs: Mapping[str, Mapping[str, Any]]
) -> Section:
    rows = [
        [
            name,
            *(
                format_number(config[name]) if name in config else ""
                for config in configs.values()
            ),
        ]
        for name in list_hyperparameters(configs.values())
    ]
    return {"title": title, "rows": [[head, *configs], *rows], "compares": True}


def _describe_trial(
    results: Results, trial: TrialRecord, whose: str, measured: Mapping[str, Any] | None
) -> Iterator[Section]:
    """The config beside the best one, the checkpoints, and what the test split shows."""
    configs = {"this trial": flatten(trial.config, ".")}
    best = results.top(1)
    if best and best[0].trial_id != trial.trial_id:
        configs["best"] = flatten(best[0].config, ".")
    yield _compare_configs("Config", "", configs)
    reported = find_best_report(trial, results.objective)
    if reported:
        metrics = [
            [name, format_number(value)] for name, value in reported.metrics.items()
        ]
        yield {
            "title": f"Its best epoch, {reported.epoch}",
            "rows": [["metric", "value"], *metrics],
        }
    kept = [
        [str(record.epoch), path]
        for record in trial.checkpoints
        if (path := results.locate_checkpoint(trial, record.epoch))
    ]
    if kept:
        name = format_experiment_name(results.folder)
        command = f"Hand it over: {find_program()} export {name} --trial {trial.trial_id} --to DIR"
        yield {
            "title": "Checkpoints",
            "lines": [command],
            "rows": [["epoch", "file"], *kept],
        }
    if measured:
        yield from _describe_test(results, trial.trial_id, whose, measured)


def _find_measured(
    results: Results, trial: TrialRecord
) -> tuple[str, dict[str, Any] | None]:
    """Whose model the test split has measured, and the record: the trial's, or its refit's."""
    if record := read_trial_test(results, trial):
        return "its", record
    is_best = [trial.trial_id] == [best.trial_id for best in results.top(1)]
    refit = find_refit(results) if is_best else None
    return "its refit's", read_best_test(refit) if refit else None


def _list_mistakes(measured: Mapping[str, Any] | None) -> list[Picture]:
    return parse_pictures(measured, MISTAKES, "predicted")


def _describe_test(
    results: Results, trial_id: str, whose: str, measured: Mapping[str, Any]
) -> Iterator[Section]:
    tests = [
        [name, format_number(value)]
        for name, value in measured.items()
        if name.startswith("test_")
    ]
    title = f"Held-out test split: {whose} model"
    yield {"title": title, "rows": [["metric", "value"], *tests]}
    if recalls := build_class_table(measured):
        yield {"title": "Recall of each class", "rows": [CLASS_HEAD, *recalls]}
    path = f"/api/experiments/{quote(results.name, safe='')}/trials/{trial_id}/pictures"
    pictures = [
        {
            "url": f"{path}/{position}",
            "text": f"{each.label}, taken for {each.other} ({each.probability:.2f}): "
            f"{PurePath(each.file).name}",
        }
        for position, each in enumerate(_list_mistakes(measured))
    ]
    if pictures:
        yield {"title": "Its surest mistakes", "pictures": pictures}
