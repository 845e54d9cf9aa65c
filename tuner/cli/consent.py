"""Questions to the user, most of all before a spec from elsewhere has code imported.

It says which code that is. What the user names on the command line, a module or a .py file, is
neither told nor asked about.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.errors import UsageError
from tuner.wording import printable

if TYPE_CHECKING:
    from tuner.experiment.results.described import Described
    from tuner.spec.code import NamedCode
    from tuner.vision.export.read import Export


def admit_experiment(experiment: Described, *, yes: bool, trains_only: bool = False) -> None:
    """Say which code an experiment is about to import, and what else its spec reaches out to.

    Modules are looked for here, too. trains_only: neither its searcher nor its scheduler is used.
    Raises Abort where the user refuses.
    """
    from tuner.planning.resolve import search_modules_in
    from tuner.spec.code import is_dotted
    from tuner.spec.notify import runs_or_reads

    search_modules_in(Path.cwd())
    spec = experiment.spec
    code = _code_of(experiment)
    if trains_only:
        code = [each for each in code if each.key not in ("search.strategy", "scheduler.name")]
    _announce(code, experiment.name)
    named: dict[str, Any] = {"log": ", ".join(spec.log)}
    named["notify"] = ", ".join(target for target in spec.notify if not runs_or_reads(target))
    named |= {f"training.{name}": spec.training.get(name) for name in ("data_dir", "start_from")}
    dataset = spec.training.get("dataset")
    if spec.ships and isinstance(dataset, str) and ":" in dataset and not is_dotted(dataset):
        named["training.dataset"] = dataset
    for name, value in named.items():
        if value:
            click.echo(printable(f"using {name} {value}, which {experiment.name} names"), err=True)
    _ask(code, yes=yes, foreign=experiment.folder)


def admit_network(experiment: Described, *, yes: bool) -> None:
    """The same for the networks alone that its trials have trained."""
    from tuner.planning.resolve import search_modules_in

    search_modules_in(Path.cwd())
    code = [each for each in _code_of(experiment) if each.key.endswith(".model")]
    _announce(code, experiment.name)
    _ask(code, yes=yes, foreign=experiment.folder)


def admit_export(export: Export, *, yes: bool) -> None:
    """The same for an exported model, and what it names: its trainable, its images, its network."""
    from tuner.planning.resolve import search_modules_in

    search_modules_in(Path.cwd())
    code = code_of_export(export)
    _announce(code, str(export.folder))
    _ask(code, yes=yes, foreign=export.folder)


def code_of_export(export: Export) -> list[NamedCode]:
    """The code that evaluating an export imports, but for what ships."""
    from tuner.spec.code import code_named

    config = export.config
    return code_named(
        {
            "trainable": config.trainable,
            "training": config.training,
            "search": {"configs": [config.config]},
        }
    )


def _code_of(experiment: Described) -> list[NamedCode]:
    """What the spec of an experiment names, and the configs of its trials, which may be others."""
    from tuner.spec.code import code_named

    named = experiment.spec.model_dump(
        mode="json", include={"trainable", "training", "search", "scheduler", "notify"}
    )
    code = code_named(named)
    if not experiment.spec.ships:  # in whose configs `model` may mean anything
        return code
    tried = code_named(
        {"trainable": named["trainable"], "search": {"configs": _models_of(experiment)}}
    )
    known = {each.path for each in code}
    return [*code, *(each for each in tried if each.path not in known)]


def _models_of(experiment: Described) -> list[dict[str, Any]]:
    """As configs, each `model` that a trial has, or one of those that confirm it."""
    from tuner.experiment.events import TRIAL_STARTED
    from tuner.experiment.results.confirmation import confirmation_of
    from tuner.experiment.results.results import Results

    confirmation = confirmation_of(experiment) if isinstance(experiment, Results) else None
    journals = [experiment] if confirmation is None else [experiment, confirmation.results]
    models: dict[str, Any] = {}
    for journal in journals:
        for event in journal.files.events_naming("model"):
            config = event.get("config") if event.get("event") == TRIAL_STARTED else None
            if isinstance(config, dict) and "model" in config:
                models[json.dumps(config["model"])] = config["model"]
    return [{"model": model} for model in models.values()]


def admit_file(code: Sequence[NamedCode], source: str, *, yes: bool) -> None:
    """The same for a spec in a file of YAML or JSON, `source`."""
    _announce(code, source)
    _ask(code, yes=yes)


def _announce(code: Sequence[NamedCode], source: str) -> None:
    for each in code:
        click.echo(printable(f"{each.announcement}, which {source} names"), err=True)


def _ask(code: Sequence[NamedCode], *, yes: bool, foreign: Path | None = None) -> None:
    """Ask about code that is not of the working directory, or lies in a `foreign` folder in it."""
    here = Path.cwd()
    unknown = [c for c in code if not c.is_below(here) or (foreign and c.is_below(foreign))]
    if unknown and not yes and sys.stdin.isatty():
        names = ", ".join(each.path for each in unknown)
        click.confirm(f"run {printable(names)}, from outside this folder?", abort=True, err=True)


def ask(question: str, *, yes: bool, unattended: str) -> None:
    """Ask before what costs much or cannot be taken back; a no ends the command.

    yes: the user has said so already. Raises UsageError, with `unattended`, where there is no
    terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(unattended)
    click.confirm(question, abort=True, err=True)
