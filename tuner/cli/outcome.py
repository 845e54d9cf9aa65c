"""The outcome of a search: what is printed, and the exit code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.printing import format_json, warn
from tuner.errors import NoUsableTrialError
from tuner.threads import run_in_thread

if TYPE_CHECKING:
    from tuner.experiment.results.confirmation import Confirmation
    from tuner.experiment.results.results import Results
    from tuner.spec.experiment import ExperimentSpec

_LOOK_S = 0.2  # between looks at the journal
SOME_FAILED = 3  # the exit code of a search that is done, except some trials


def print_outcome(
    results: Results, refit: Results | None = None, *, evaluate: bool, as_json: bool
) -> int:
    """Print the outcome of a search; returns the exit code.

    refit: of its best trial, whose model is then the one that is measured, if it can be.
    """
    from tuner.experiment.results.accuracy import describe_test
    from tuner.experiment.results.confirmation import find_confirmation
    from tuner.reporting.experiment_text import format_summary

    if results.is_confirmation and (confirmation := find_confirmation(results)):
        return print_confirmation(confirmation, evaluate=evaluate, as_json=as_json)
    try:
        chosen = refit or results
        refits = chosen.spec.refits
        test = _test_metrics(
            chosen,
            chosen.get_best_trial().trial_id,
            # Nothing can measure a model that has trained on the test images, too
            evaluate=evaluate and not (refits and refits.final),
        )
        code = choose_exit_code(results)
    except NoUsableTrialError as error:
        shown = "" if as_json else results.why_failed  # by the summary
        click.echo(f"error: {str(error).removesuffix(shown)}", err=True)
        test = None
        code = error.exit_code
    if as_json:
        named = {"refit": refit.name} if refit else {}
        click.echo(
            format_json({**results.show(), **named, "test": describe_test(test)})
        )
    else:
        click.echo(format_summary(results, test, refit=refit))
    return code


def print_confirmation(
    confirmation: Confirmation, *, evaluate: bool, as_json: bool
) -> int:
    """Print the result of a confirmation; returns the exit code."""
    from tuner.experiment.results.accuracy import describe_test
    from tuner.reporting.confirmation_text import format_confirmation

    results = confirmation.results
    test = _test_metrics(results, confirmation.trial.trial_id, evaluate=evaluate)
    if as_json:
        click.echo(format_json({**confirmation.as_dict(), "test": describe_test(test)}))
    else:
        click.echo(format_confirmation(confirmation, test))
    return choose_exit_code(results)


def _test_metrics(
    results: Results, trial_id: str, *, evaluate: bool
) -> dict[str, Any] | None:
    """The metrics on the test split, or None if unwanted or if the trainable has none."""
    if not evaluate:
        return None
    from tuner.spec.by_value import ByValue, is_by_value
    from tuner.spec.loading import has_test, import_trainable

    path = results.spec.trainable
    if is_by_value(path) and not isinstance(path, ByValue):
        return None
    if not has_test(import_trainable(path)):
        return None
    from tuner.vision.export.evaluate import evaluate as evaluate_trial

    warn(f"measuring trial {trial_id} on the test split")
    return evaluate_trial(results, trial_id, labels=True)


@contextmanager
def preload_evaluation(spec: ExperimentSpec, *, evaluate: bool) -> Iterator[None]:
    """Within it, while the trials of `spec` run, this loads what `print_outcome` measures with.

    It begins with the first report: until then each core has the trials' own imports to do.
    """
    if not (evaluate and spec.ships):
        yield
        return
    from tuner.experiment.events import CHECKPOINT, RESULT, TRIAL_ENDED
    from tuner.experiment.reading import read_last_event
    from tuner.spec.loading import load_trainable

    def load(over: threading.Event) -> None:
        while not over.wait(_LOOK_S):
            newest = read_last_event(spec.folder)
            if newest and newest["event"] in (RESULT, CHECKPOINT, TRIAL_ENDED):
                import_module("tuner.vision.export.evaluate")
                load_trainable(spec.trainable)
                return

    with run_in_thread(load):
        yield


def choose_exit_code(results: Results) -> int:
    if not results.ranked:
        return NoUsableTrialError.exit_code
    return SOME_FAILED if results.counts["failed"] else 0
