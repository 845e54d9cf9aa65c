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
    from tuner.export.read import ExportConfig
    from tuner.results.described import Described
    from tuner.spec.code import NamedCode

_TRAINING = ("trainable", "training.dataset")  # the keys of the code that trials run


def admit_experiment(experiment: Described, *, yes: bool, trains_only: bool = False) -> None:
    """Say which code an experiment is about to import, and what else its spec reaches out to.

    Modules are looked for here, too. trains_only: neither its searcher nor its scheduler is used.
    Raises Abort where the user refuses.
    """
    from tuner.planning.resolve import search_modules_in
    from tuner.spec.code import code_named, is_dotted

    search_modules_in(Path.cwd())
    spec = experiment.spec
    parts = {"trainable", "search", "scheduler", "training"}
    code = code_named(spec.model_dump(mode="json", include=parts))
    if trains_only:
        code = [each for each in code if each.key in _TRAINING]
    _announce(code, experiment.name)
    named: dict[str, Any] = {"log": ", ".join(spec.log)}
    named |= {f"training.{name}": spec.training.get(name) for name in ("data_dir", "start_from")}
    dataset = spec.training.get("dataset")
    if spec.ships and isinstance(dataset, str) and ":" in dataset and not is_dotted(dataset):
        named["training.dataset"] = dataset
    for name, value in named.items():
        if value:
            click.echo(printable(f"using {name} {value}, which {experiment.name} names"), err=True)
    _ask(code, yes=yes, foreign=experiment.folder)


def admit_export(config: ExportConfig, folder: Path, *, yes: bool) -> None:
    """The same for an exported model; its config is in `folder`."""
    from tuner.planning.resolve import search_modules_in
    from tuner.spec.code import code_named

    search_modules_in(Path.cwd())
    code = code_named({"trainable": config.trainable, "training": config.training})
    _announce(code, str(folder))
    _ask(code, yes=yes, foreign=folder)


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
