"""Before a spec from elsewhere has code imported: which code it is, and whether to run it.

What the user names on the command line, a module or a .py file, is neither told nor asked about.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.wording import printable

if TYPE_CHECKING:
    from tuner.export.read import Export
    from tuner.results.results import Results
    from tuner.spec.code import NamedCode


def admit_results(results: Results, *, yes: bool, trains_only: bool = False) -> None:
    """Say which code an experiment is about to import, and what else its spec reaches out to.

    Modules are looked for here, too. trains_only: neither its searcher nor its scheduler is used.
    Raises Abort where the user refuses.
    """
    from tuner.planning.resolve import search_modules_in

    search_modules_in(Path.cwd())
    spec = results.spec
    code = _code_of(results)
    if trains_only:
        code = [each for each in code if each.key not in ("search.strategy", "scheduler.name")]
    _announce(code, results.name)
    named: dict[str, Any] = {"log": ", ".join(spec.log)}
    named |= {f"training.{name}": spec.training.get(name) for name in ("data_dir", "start_from")}
    for name, value in named.items():
        if value:
            click.echo(printable(f"using {name} {value}, which {results.name} names"), err=True)
    _ask(code, yes=yes, foreign=results.folder)


def admit_network(results: Results, *, yes: bool) -> None:
    """The same for the networks alone that its trials have trained."""
    from tuner.planning.resolve import search_modules_in

    search_modules_in(Path.cwd())
    code = [each for each in _code_of(results) if each.key.endswith(".model")]
    _announce(code, results.name)
    _ask(code, yes=yes, foreign=results.folder)


def admit_export(export: Export, *, yes: bool) -> None:
    """The same for an exported model, and what it names: its trainable and its network."""
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


def _code_of(results: Results) -> list[NamedCode]:
    """What the spec of an experiment names, and the configs of its trials, which may be others."""
    from tuner.results.confirmation import confirmation_of
    from tuner.spec.code import code_named

    named = results.spec.model_dump(
        mode="json", include={"trainable", "training", "search", "scheduler"}
    )
    code = code_named(named)
    confirmation = confirmation_of(results)
    journals = [results] if confirmation is None else [results, confirmation.results]
    configs = [trial.config for journal in journals for trial in journal.trials.values()]
    tried = code_named({"trainable": named["trainable"], "search": {"configs": configs}})
    known = {each.path for each in code}
    return [*code, *(each for each in tried if each.path not in known)]


def admit_file(code: Sequence[NamedCode], source: str, *, yes: bool) -> None:
    """The same for a spec in a file of YAML or JSON, `source`."""
    _announce(code, source)
    _ask(code, yes=yes)


def _announce(code: Sequence[NamedCode], source: str) -> None:
    for each in code:
        where = each.file or "not found"
        click.echo(printable(f"importing {each.path} ({where}), which {source} names"), err=True)


def _ask(code: Sequence[NamedCode], *, yes: bool, foreign: Path | None = None) -> None:
    """Ask about code that is not of the working directory, or lies in a `foreign` folder in it."""
    here = Path.cwd()
    unknown = [c for c in code if not c.is_below(here) or (foreign and c.is_below(foreign))]
    if unknown and not yes and sys.stdin.isatty():
        names = ", ".join(each.path for each in unknown)
        click.confirm(f"run {printable(names)}, from outside this folder?", abort=True, err=True)
