"""What commands share: reading an experiment, and printing what came of it."""

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

SOME_FAILED = 3


def load(name: str, storage: str | None) -> Results:
    """The experiment `name`. Raises as `load_results` does."""
    from tuner.results.results import load_results

    return load_results(name, storage)


def announce_code(results: Results) -> None:
    """Say whose code an experiment is about to import, and what else of its spec reaches out."""
    announce_import(results.spec.get("trainable"), results.name)
    training = results.spec.get("training")
    named = {"log": results.spec.get("log")}
    if isinstance(training, dict):
        named |= {f"training.{name}": training.get(name) for name in ("data_dir", "start_from")}
    for name, value in named.items():
        if value:
            click.echo(printable(f"using {name} {value}, which {results.name} names"), err=True)


def announce_import(trainable: object, source: str) -> None:
    """Say that the `trainable` that `source` names is imported; modules are found from here."""
    from tuner.planning.lookup import search_modules_in
    from tuner.spec.experiment import IMAGE_CLASSIFIER

    search_modules_in(Path.cwd())
    if trainable != IMAGE_CLASSIFIER:
        click.echo(printable(f"importing {trainable}, which {source} names"), err=True)


def print_json(document: object) -> None:
    """The one document that --json promises on stdout."""
    click.echo(json.dumps(document, indent=2))


def finish(results: Results, *, evaluate: bool, as_json: bool) -> int:
    """Print what came of a search; its exit code."""
    from tuner.reporting.experiment_text import summary
    from tuner.results.confirmations import confirmation_of

    if results.spec.get("confirms") and (confirmation := confirmation_of(results)):
        return finish_confirmation(confirmation, evaluate=evaluate, as_json=as_json)
    try:
        test = _tested(results, results.get_best_trial().trial_id, wanted=evaluate)
        code = _code(results)
    except NoUsableTrialError as error:
        click.echo(f"error: {error}", err=True)
        test, code = None, error.exit_code
    if as_json:
        print_json({**results.show(), "test": test})
    else:
        click.echo(summary(results, test))
    return code


def finish_confirmation(confirmation: Confirmation, *, evaluate: bool, as_json: bool) -> int:
    """Print what retraining the leaders has shown; the exit code."""
    from tuner.reporting.confirmation_text import confirmation_text

    results = confirmation.results
    test = _tested(results, confirmation.trial.trial_id, wanted=evaluate)
    if as_json:
        print_json({**confirmation.as_dict(), "test": test})
    else:
        click.echo(confirmation_text(confirmation, test))
    return _code(results)


def _tested(results: Results, trial_id: str, *, wanted: bool) -> dict[str, Any] | None:
    """The trial on the test split; None where that is not wanted, or cannot be measured."""
    from tuner.export.evaluate import can_evaluate, evaluate

    return evaluate(results, trial_id) if wanted and can_evaluate(results.spec) else None


def _code(results: Results) -> int:
    return SOME_FAILED if results.counts["failed"] else 0
