"""What several commands print: JSON, whose code is imported, and what came of a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.errors import NoUsableTrialError
from tuner.wording import printable

if TYPE_CHECKING:
    from tuner.results.confirmation import Confirmation
    from tuner.results.results import Results

SOME_FAILED = 3  # the exit code of a search that is done, but for some trials


def print_json(document: object) -> None:
    """The one document that --json promises on stdout."""
    # JSON leaves one control character as it is
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))


def announce_code(results: Results) -> None:
    """Say whose code an experiment is about to import, and what else its spec reaches out to."""
    spec = results.spec
    announce_import(spec.trainable, results.name)
    named: dict[str, Any] = {"log": ", ".join(spec.log)}
    named |= {f"training.{name}": spec.training.get(name) for name in ("data_dir", "start_from")}
    for name, value in named.items():
        if value:
            click.echo(printable(f"using {name} {value}, which {results.name} names"), err=True)


def announce_import(trainable: object, source: str) -> None:
    """Say that the `trainable` that `source` names is imported; modules are found from here."""
    from tuner.planning.resolve import search_modules_in
    from tuner.spec.experiment import IMAGE_CLASSIFIER

    search_modules_in(Path.cwd())
    if trainable != IMAGE_CLASSIFIER:
        click.echo(printable(f"importing {trainable}, which {source} names"), err=True)


def print_outcome(results: Results, *, evaluate: bool, as_json: bool) -> int:
    """Print what came of a search; its exit code."""
    from tuner.reporting.experiment_text import summary
    from tuner.results.confirmation import confirmation_of

    if results.is_confirmation and (confirmation := confirmation_of(results)):
        return print_confirmation(confirmation, evaluate=evaluate, as_json=as_json)
    try:
        test = _test_metrics(results, results.get_best_trial().trial_id, evaluate=evaluate)
        code = _exit_code(results)
    except NoUsableTrialError as error:
        click.echo(f"error: {error}", err=True)
        test, code = None, error.exit_code
    if as_json:
        print_json({**results.show(), "test": test})
    else:
        click.echo(summary(results, test))
    return code


def print_confirmation(confirmation: Confirmation, *, evaluate: bool, as_json: bool) -> int:
    """Print what retraining the leaders has shown; the exit code."""
    from tuner.reporting.confirmation_text import confirmation_text

    results = confirmation.results
    test = _test_metrics(results, confirmation.trial.trial_id, evaluate=evaluate)
    if as_json:
        print_json({**confirmation.as_dict(), "test": test})
    else:
        click.echo(confirmation_text(confirmation, test))
    return _exit_code(results)


def _test_metrics(results: Results, trial_id: str, *, evaluate: bool) -> dict[str, Any] | None:
    """None where they are not wanted, or the trainable cannot measure them."""
    from tuner.export import evaluate as evaluation

    if not evaluate or not evaluation.can_evaluate(results.spec):
        return None
    return evaluation.evaluate(results, trial_id)


def _exit_code(results: Results) -> int:
    return SOME_FAILED if results.counts["failed"] else 0
