"""What the page shows, in words: tiles, tables, sections and figures.

Numbers are written as `tuner show` writes them: the page formats none. A section is a dict with a
title, and lines, rows of texts after a head, or pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import PurePath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from tuner.errors import UsageError
from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.confirmation import measured_test, measured_trial, refit_of
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_report
from tuner.experiment.results.statistics import CLASS_HEAD, MISTAKES, class_table
from tuner.experiment.trials import TrialError, TrialRecord
from tuner.reporting import comparison_text
from tuner.reporting.experiment_text import change_line, folder_name
from tuner.reporting.figures import draw_comparison, draw_confusion, draw_trial
from tuner.reporting.figures.data import FigureData
from tuner.reporting.pictures import Picture, pictures_in, thumbnail_of
from tuner.reporting.report import Report
from tuner.reporting.tables import names_in, trial_cells
from tuner.service.access import Json
from tuner.service.api import All, ChosenRows, Opened
from tuner.spec.plain_values import flat
from tuner.wording import amount_of, config_line, duration, number, program

FEWEST = 2
MOST = 5  # experiments that are compared on one page
_LONGEST_CONFIG = 300  # characters beside a figure
Section = dict[str, Any]

router = APIRouter()
_OF_TRIAL = "/api/experiments/{name}/trials/{trial_id}"


def view_experiment(results: Results) -> dict[str, Any]:
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
        "changes": [change_line(change) for change in results.changes[::-1]],
    }


@router.get("/api/experiments/{name}/table")
def table(results: Opened, chosen: ChosenRows) -> Response:
    """The trials as `/trials` chooses them, in the words of a table; `total` match."""
    goals = [goal.metric for goal in results.objective.goals]
    names = names_in(flat(row["config"], ".") for row in chosen.rows)
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
                    "cells": trial_cells(row, goals, names),
                }
                for row in chosen.rows
            ],
            "total": chosen.total,
        }
    )


@router.get(f"{_OF_TRIAL}/config", response_class=PlainTextResponse)
def config(results: Opened, trial_id: str) -> Response:
    """The config of a trial in a line."""
    with results.lock:
        plain = flat(results.trial(trial_id).config, ".")
    return PlainTextResponse(config_line(plain, _LONGEST_CONFIG))


@router.get(f"{_OF_TRIAL}/view")
def view(
    results: Opened,
    trial_id: str,
    metric: Annotated[str | None, Query(description="of the curve")] = None,
) -> Response:
    """A trial in words, beside the best one."""
    with results.lock:
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
                "line": f"{amount_of(trial.last_epoch, 'epoch')}, {duration(trial.duration_s)}",
                "failure": [_failure(error)] if error else [],
                "figures": [figure.as_dict() for figure in figures if figure],
                "metric": metric or results.metric,
                "metrics": results.metrics,
                "config": trial.config,
                "sections": [*_sections_of(results, trial, whose, measured)],
            }
        )


@router.get(f"{_OF_TRIAL}/pictures/{{position}}")
def picture(results: Opened, trial_id: str, position: int) -> Response:
    """The thumbnail of one of the images that the trial takes for another class."""
    with results.lock:
        _, measured = _find_measured(results, results.trial(trial_id))
    for mistake in _mistakes(measured)[position : position + 1]:
        if jpeg := thumbnail_of(mistake):
            return Response(jpeg, media_type="image/jpeg")
    raise UsageError(f"no picture {position} of trial {trial_id} can be shown")


@router.get("/api/compare")
def compare(
    experiments: All, name: Annotated[list[str], Query(description="of an experiment")]
) -> Response:
    """Experiments side by side: what `tuner compare` says, figures, and their best configs."""
    if not FEWEST <= len(name) <= MOST:
        raise UsageError(f"a page compares {FEWEST} to {MOST} experiments, got {len(name)}")
    opened = [experiments.opened(each) for each in name]
    with ExitStack() as locks:
        for results in opened:
            locks.enter_context(results.lock)
        comparison = Comparison(opened)
        return Json(
            {
                "headline": comparison_text.headline(comparison),
                "figures": [figure.as_dict() for figure in draw_comparison(comparison)],
                "sections": [*_compared(comparison)],
            }
        )


def _failure(error: TrialError) -> Section:
    return {"title": f"Failure: {error.kind}", "lines": [error.message]}


def _compared(comparison: Comparison) -> Iterator[Section]:
    yield {"title": "Which is ahead", "lines": [*comparison_text.verdict(comparison)]}
    tables = (
        ("On average over the seeds", comparison_text.strategies_table(comparison)),
        ("The experiments", comparison_text.entrants_table(comparison)),
    )
    for title, (head, *rows) in tables:
        yield {"title": title, "rows": [[text.capitalize() for text in head], *rows]}
    named = [(results.name, results.top(1)) for results in comparison.experiments]
    configs = {name: flat(best[0].config, ".") for name, best in named if best}
    yield _configs_side_by_side("Configs of the best trials", "hyperparameter", configs)
    if comparison.notes:
        yield {"title": "What else differs", "lines": list(comparison.notes)}


def _configs_side_by_side(
    title: str, head: str, configs: Mapping[str, Mapping[str, Any]]
) -> Section:
    rows = [
        [name, *(number(config[name]) if name in config else "" for config in configs.values())]
        for name in names_in(configs.values())
    ]
    return {"title": title, "rows": [[head, *configs], *rows], "compares": True}


def _sections_of(
    results: Results, trial: TrialRecord, whose: str, measured: Mapping[str, Any] | None
) -> Iterator[Section]:
    """The config beside the best one, the checkpoints, and what the test split shows."""
    configs = {"this trial": flat(trial.config, ".")}
    best = results.top(1)
    if best and best[0].trial_id != trial.trial_id:
        configs["best"] = flat(best[0].config, ".")
    yield _configs_side_by_side("Config", "", configs)
    reported = best_report(trial, results.objective)
    if reported:
        metrics = [[name, number(value)] for name, value in reported.metrics.items()]
        yield {
            "title": f"Its best epoch, {reported.epoch}",
            "rows": [["metric", "value"], *metrics],
        }
    kept = [
        [str(record.epoch), path]
        for record in trial.checkpoints
        if (path := results.checkpoint_at(trial, record.epoch))
    ]
    if kept:
        name = folder_name(results.folder)
        command = f"Hand it over: {program()} export {name} --trial {trial.trial_id} --to DIR"
        yield {"title": "Checkpoints", "lines": [command], "rows": [["epoch", "file"], *kept]}
    if measured:
        yield from _sections_of_test(results, trial.trial_id, whose, measured)


def _find_measured(results: Results, trial: TrialRecord) -> tuple[str, dict[str, Any] | None]:
    """Whose model the test split has measured, and the record: the trial's, or its refit's."""
    if record := measured_trial(results, trial):
        return "its", record
    is_best = [trial.trial_id] == [best.trial_id for best in results.top(1)]
    refit = refit_of(results) if is_best else None
    return "its refit's", measured_test(refit) if refit else None


def _mistakes(measured: Mapping[str, Any] | None) -> list[Picture]:
    return pictures_in(measured, MISTAKES, "predicted")


def _sections_of_test(
    results: Results, trial_id: str, whose: str, measured: Mapping[str, Any]
) -> Iterator[Section]:
    tests = [[name, number(value)] for name, value in measured.items() if name.startswith("test_")]
    title = f"Held-out test split: {whose} model"
    yield {"title": title, "rows": [["metric", "value"], *tests]}
    if recalls := class_table(measured):
        yield {"title": "Recall of each class", "rows": [CLASS_HEAD, *recalls]}
    path = f"/api/experiments/{quote(results.name, safe='')}/trials/{trial_id}/pictures"
    pictures = [
        {
            "url": f"{path}/{position}",
            "text": f"{each.label}, taken for {each.other} ({each.probability:.2f}): "
            f"{PurePath(each.file).name}",
        }
        for position, each in enumerate(_mistakes(measured))
    ]
    if pictures:
        yield {"title": "Its surest mistakes", "pictures": pictures}
