"""An experiment as plain text for stdout: 80 columns, no colour."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from math import inf
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.experiment import events
from tuner.experiment.results.accuracy import (
    Accuracy,
    build_test_accuracy,
    collect_warnings,
)
from tuner.experiment.results.described import Labels
from tuner.experiment.results.results import Results
from tuner.experiment.results.split_details import compute_macro_recall
from tuner.places import format_path
from tuner.reporting.commands import format_experiment_name, format_resume_command
from tuner.reporting.control_text import format_answers, format_changes
from tuner.spec.by_value import is_by_value
from tuner.spec.code import ELSEWHERE
from tuner.spec.plain_values import flatten
from tuner.wording import (
    clean_text,
    find_program,
    format_amount,
    format_duration,
    format_mean,
    format_number,
    format_rows,
    join_sections,
    list_counts,
    shorten,
)

_WIDTH = 80
# Prefixes of metrics; the last is Hugging Face's
_VALIDATION = ("val_", "val/", "eval_")
_CAUSES = 5  # of failures that are shown
_USED = 0.85  # of a time budget; a search that ends before says why


def format_summary(
    results: Results,
    test: Mapping[str, Any] | None = None,
    *,
    confirmed: Mapping[str, Any] | None = None,
    refit: Results | None = None,
) -> str:
    """The experiment in a screen of text, without a newline at the end.

    test: the metrics on the held-out split, of the model of `refit` if there is one. confirmed: in
    the shape that `show_json` gives it.
    """
    test = test or {}
    sections = [
        _format_head(results),
        _format_best(results, {} if refit else test),
        _format_confirmed(results.metric, confirmed) if confirmed else [],
        _format_refit(refit, test) if refit else [],
        format_failures(results),
        format_changes(results.changes),
        format_answers(results.history.steered.answers),
        _format_next_steps(results),
    ]
    return join_sections(sections)


def format_best_trial(
    best: Mapping[str, Any], accuracy: Accuracy | None, metric: str
) -> str:
    """One trial in the shape of `Results.describe_best`.

    accuracy: that on the validation split. metric: that of the estimate.
    """
    lines = [f"trial {best['trial_id']}, epoch {best['epoch']}, {best['shown']}"]
    if best["shown"] == "confirmed":
        confirmed = best["confirmed"]
        name, trial_id, seed = (
            confirmed[key] for key in ("experiment", "trial_id", "seed")
        )
        lines += [
            f"  mean        {_format_confirmed_mean(confirmed)}",
            f"  model       trial {trial_id} of {clean_text(name)}, seed {seed}",
        ]
    metrics = best["metrics"]
    config = flatten(best["config"], ".")
    notes = describe_estimate(metric, best)
    values = [
        *_format_rows(metrics, accuracy, notes=notes),
        *_format_rows(config),
    ]
    rows = format_rows([(f"    {clean_text(name)}", value) for name, value in values])
    lines += ["  metrics", *rows[: len(metrics)]]
    lines += ["  config", *rows[len(metrics) :]]
    checkpoint = clean_text(best["checkpoint"] or "none kept at this epoch")
    lines.append(f"  checkpoint  {checkpoint}")
    lines += format_warnings(accuracy)
    return "\n".join(lines)


def format_model(
    metrics: Mapping[str, Any],
    config: Mapping[str, Any],
    test: Mapping[str, Any],
    accuracy: Accuracy | None,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """The metrics of a model with their notes, those of the test split, and its config, aligned."""
    rows = [
        *_format_rows(metrics, accuracy, notes=notes),
        *_format_test_rows(test),
    ]
    settings = flatten(config, ".").items()
    configs = [(name, shorten(format_number(value), 60)) for name, value in settings]
    lines = format_rows(
        [(f"  {clean_text(name)}", value) for name, value in [*rows, *configs]]
    )
    warnings = format_warnings(accuracy, build_test_accuracy(test))
    return [
        *lines[: len(rows)],
        *warnings,
        "Its config",
        *lines[len(rows) :],
    ]


def _format_test_rows(test: Mapping[str, Any]) -> list[tuple[str, str]]:
    tests = {name: value for name, value in test.items() if name.startswith("test_")}
    rows = _format_rows(tests, build_test_accuracy(test), note="held-out test split")
    if (macro := compute_macro_recall(test)) is not None:
        note = "held-out test split; the classes are uneven"
        rows += _format_rows({"macro recall": macro}, note=note)
    return rows


def _format_rows(
    values: Mapping[str, Any],
    accuracy: Accuracy | None = None,
    *,
    note: str = "",
    notes: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, str]]:
    """(name, value) of each with `note` and its own of `notes`; an accuracy with its baseline."""
    rows = []
    for name, value in values.items():
        baseline = ""
        if accuracy and accuracy.metric == name:
            baseline = accuracy.note
        remarks = [note, notes.get(name, ""), baseline]
        said = "; ".join(filter(None, remarks))
        text = format_number(value)
        if said:
            text += f"  ({said})"
        rows.append((name, text))
    return rows


def format_warnings(*accuracies: Accuracy | None) -> list[str]:
    """The accuracies that do not beat their baseline, in lines."""
    return [
        f"  {line}"
        for text in collect_warnings(*accuracies)
        for line in wrap(text, _WIDTH - 2)
    ]


def _format_head(results: Results) -> list[str]:
    status = results.status_text
    if results.history.started is not None:
        preposition = "in" if status == events.COMPLETED else "after"
        status += f" {preposition} {format_duration(results.history.duration_s)}"
    counts = list_counts(results.counts)
    if unused := _find_unused_budget(results):
        budget_s, why = unused
        status += f", before its time budget of {format_duration(budget_s)}"
        counts.append(why)
    begun = sum(results.counts.values())
    trials = format_amount(begun, "trial")
    if more := results.history.never_started:
        trials = f"{begun} of {begun + more} trials"
        counts.append(f"{more} never started")
    if beyond := results.beyond:
        counts.append(
            f"{beyond} beyond the limits {' and '.join(results.objective.limits)}"
        )
    if counts:
        trials += f": {', '.join(counts)}"
    return [
        f"{clean_text(results.name)}: {status}",
        trials,
        *format_gain(results),
        *_format_refit_source(results),
        *format_labels(results.labels),
    ]


def _find_unused_budget(results: Results) -> tuple[float, str] | None:
    """(the time budget in seconds, why the search ended well before it), or None."""
    spec = results.document["spec"]
    budget_s = spec.get("time_budget_s")
    repeats_trial = spec.get("confirms") or spec.get("refits")
    if (
        not budget_s
        or repeats_trial
        or results.status != events.COMPLETED
        or results.history.duration_s >= _USED * budget_s
    ):
        return None
    if results.ended_by is None:
        if _has_all_samples(results):
            return budget_s, "all that num_samples allows"
        return budget_s, "no config is left to try"
    if results.ended_by == events.TIME_BUDGET and spec.get("refit"):
        return budget_s, "the refit has the remaining time"
    return None


def _has_all_samples(results: Results) -> bool:
    """Whether as many trials have begun as num_samples allows."""
    most = results.document["spec"].get("num_samples") or inf
    return sum(results.counts.values()) >= most


def format_gain(results: Results) -> list[str]:
    """The gain that is expected of another hour, where `stop.utility` is set."""
    if not (expected := results.expected_gain):
        return []
    gain = expected["per_hour"]
    value = (
        "not known yet"
        if gain is None
        else f"{gain:.2g} of {clean_text(results.metric)}"
    )
    return [f"expected of another hour: {value} (ends below {expected['utility']:g})"]


def _format_refit_source(results: Results) -> list[str]:
    refits = results.document["spec"].get("refits")
    if not refits:
        return []
    value = format_number(refits["value"])
    text = (
        f"refit of trial {refits['trial_id']} of {refits['name']}, which had "
        f"{refits['chosen_by']} {value} on the validation split"
    )
    return wrap(clean_text(text), _WIDTH)


def format_labels(labels: Labels) -> list[str]:
    lines = []
    if labels.tags:
        lines.append(f"tags: {' '.join(labels.tags)}")
    note = clean_text(labels.note)
    if note:
        lines += wrap(f"note: {note}", _WIDTH)
    return lines


def _format_best(results: Results, test: Mapping[str, Any]) -> list[str]:
    try:
        trial = results.get_best_trial()
    except NoUsableTrialError:  # its text repeats the failures below
        why = f"{results.name} has no usable trial: {results.describe_unusable(results.metric)}"
        return wrap(clean_text(why), _WIDTH)
    best = results.describe_best(trial)
    reported = best["metrics"]
    goals = [goal.metric for goal in results.objective.goals]
    names = [
        *goals,
        *(name for name in reported if name.startswith(_VALIDATION)),
    ]
    metrics = {name: reported[name] for name in names if name in reported}
    return [
        f"Best trial {trial.trial_id}, epoch {best['epoch']} of {trial.last_epoch}, {trial.status}",
        *_explain_choice(results),
        *format_model(
            metrics,
            trial.config,
            test,
            results.compute_accuracy(best),
            describe_estimate(results.metric, best),
        ),
    ]


def _explain_choice(results: Results) -> list[str]:
    """Why this trial is the best one, where another one validated better."""
    best = results.history.best
    other = results.history.leader
    if best is None or other is None:
        return []
    has_default = best.trial_id != other.trial_id
    if not has_default:
        bests = [trial.best for _, trial in results.ranked if trial.best]
        other = min(bests, key=lambda each: results.objective.compute_loss(each.value))
        if not results.objective.is_better(other.value, best.value):
            return []
    value = f"{clean_text(results.metric)} {format_number(other.value)}"
    if has_default:
        text = (
            f"It has the default config: trial {other.trial_id} validated better, with {value}, "
            "but by less than half a standard error."
        )
    else:
        text = (
            f"Trial {other.trial_id} validated better at its best epoch, with {value}, but worse "
            "at the epochs around it."
        )
    return [f"  {line}" for line in wrap(text, _WIDTH - 2)]


def describe_estimate(metric: str, best: Mapping[str, Any]) -> dict[str, str]:
    """A note on what new data will probably show of the objective, where the interval is known."""
    estimate = best["estimate"]
    if estimate["low"] is None:
        return {}
    value, low, high = (f"{estimate[key]:.3g}" for key in ("value", "low", "high"))
    return {metric: f"new data: about {value}, {low} to {high}"}


def _format_refit(refit: Results, test: Mapping[str, Any]) -> list[str]:
    head = f"Refit {clean_text(refit.name)}: its config trained on"
    refits = refit.spec.refits
    if refits and refits.final:
        name = format_experiment_name(refit.folder.with_name(refits.name))
        return [
            *wrap(f"{head} all images, so that none is left to measure it", _WIDTH),
            f"  expect at least  {find_program()} evaluate {name} --trial {refits.trial_id}",
        ]
    return [
        *wrap(f"{head} training and validation images", _WIDTH),
        *format_rows(
            [(f"  {metric}", value) for metric, value in _format_test_rows(test)]
        ),
        *format_warnings(build_test_accuracy(test)),
    ]


def _format_confirmed(metric: str, confirmed: Mapping[str, Any]) -> list[str]:
    trial = f"Confirmed: trial {confirmed['trial_id']}"
    return wrap(
        f"{trial}, {clean_text(metric)} {_format_confirmed_mean(confirmed)}", _WIDTH
    )


def _format_confirmed_mean(confirmed: Mapping[str, Any]) -> str:
    mean = format_mean(confirmed["mean"], confirmed["standard_error"])
    seeds = format_amount(confirmed["seeds"], "fresh seed")
    searched = format_number(confirmed["searched"])
    return f"{mean} over {seeds}; searched {searched}"


def format_failures(results: Results) -> list[str]:
    """The causes of failures: the number of trials, and the message and the log of the first."""
    failures = list(results.failures.items())
    lines = ["Failed trials"] if failures else []
    for cause, failed in failures[:_CAUSES]:
        first = failed[0]
        lines.append(
            f"  {len(failed)} {clean_text(cause.kind)}, first trial {first.trial_id}"
        )
        message = " ".join(
            clean_text(first.error.message if first.error else "").split()
        )
        lines += wrap(
            message, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4
        )
        log = results.log_path(first)
        if log.exists():
            path = format_path(log)
            lines.append(f"    {clean_text(path)}")
    if more := failures[_CAUSES:]:
        name = format_experiment_name(results.folder)
        which = f"{find_program()} trials {name} --where 'status == \"failed\"'"
        lines.append(
            f"  {sum(len(failed) for _, failed in more)} with other causes: {which}"
        )
    return lines


def _format_next_steps(results: Results) -> list[str]:
    name = format_experiment_name(results.folder)
    spec = results.document["spec"]
    lines = [
        f"Results      {clean_text(format_path(results.folder))}",
        f"Report       {find_program()} report {name}",
        f"TensorBoard  {find_program()} tensorboard {name}",
    ]
    if results.objective.others and results.front:
        front = format_amount(len(results.front), "trial")
        lines.append(f"Front        {front}: {find_program()} best {name}")
    dataset = flatten(spec, ".").get("training.dataset")
    if results.ranked and str(dataset).startswith("folder:"):
        to = shlex.quote(f"{results.name}_model")
        export = f"{find_program()} export {name} --to {to}"
        lines.append(f"Predict      {export} && {find_program()} predict {to} PHOTO")
    trainable = str(spec.get("trainable", ""))
    is_early = results.ended_by in (events.TIME_BUDGET, events.PATIENCE, events.FINISH)
    if results.status in (events.INTERRUPTED, events.FAILED) or is_early:
        budget = (
            spec.get("time_budget_s")
            if results.ended_by == events.TIME_BUDGET
            else None
        )
        more_s = budget if isinstance(budget, int | float) else 0
        command = format_resume_command(
            results.folder,
            trainable,
            searched_s=results.history.duration_s,
            more_s=more_s,
        )
        lines.append(f"Go on        {command}")
    elif (
        _find_unused_budget(results)
        and _has_all_samples(results)
        and trainable != ELSEWHERE
        and not is_by_value(trainable)  # only code resumes these two
    ):
        begun = sum(results.counts.values())
        lines.append(
            f"Go on        {find_program()} resume {name} --add-samples {begun}"
        )
    return lines
