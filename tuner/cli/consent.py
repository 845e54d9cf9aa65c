"""Questions to the user: before foreign code is imported, and before something is removed.

What the user names on the command line, a module or a file, needs no consent, nor does code of the
working directory. Other code that a recorded experiment or an export names runs only with --trust
or after a yes at a terminal. What this user has trusted or run on this machine is remembered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.errors import UsageError
from tuner.wording import clean_text

if TYPE_CHECKING:
    from tuner.experiment.results.described import Described
    from tuner.spec.code import NamedCode
    from tuner.vision.export.read import Export


def admit(code: Sequence[NamedCode], folder: Path, *, trust: bool) -> None:
    """Return if the code that the experiment or export in `folder` names may run.

    Raises UsageError without a terminal, and Abort if the user refuses.
    """
    foreign = [
        c for c in code if not (c.is_remembered or _is_in_working_directory(c, folder))
    ]
    if foreign and not trust:
        names = "\n".join(f"  {clean_text(each.description)}" for each in foreign)
        names = f"{clean_text(str(folder))} names code that has not run here before:\n{names}\n"
        ask(f"{names}run it?", yes=False, unattended=f"{names}give --trust to run it")
    for each in foreign:
        each.remember()


def _is_in_working_directory(code: NamedCode, folder: Path) -> bool:
    """Whether its file lies below the working directory, not in `folder`, and is not installed."""
    import sysconfig

    if code.file is None:
        return False
    file = code.file.resolve()
    installed = [
        Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")
    ]
    is_foreign = any(
        file.is_relative_to(other.resolve()) for other in (folder, *installed)
    )
    return file.is_relative_to(Path.cwd()) and not is_foreign


def admit_experiment(
    experiment: Described, *, trust: bool, trains_only: bool = False
) -> None:
    """Admit the code that an experiment names.

    Modules are looked for in the working directory from here on. trains_only: neither its searcher
    nor its scheduler is used.
    """
    unused = ("search.strategy", "scheduler.name") if trains_only else ()
    code = [
        each for each in _find_experiment_code(experiment) if each.key not in unused
    ]
    admit(code, experiment.folder, trust=trust)


def admit_network(experiment: Described, *, trust: bool) -> None:
    """Admit only the networks that the experiment's trials have trained."""
    code = [
        each
        for each in _find_experiment_code(experiment)
        if each.key.endswith(".model")
    ]
    admit(code, experiment.folder, trust=trust)


def admit_export(export: Export, *, trust: bool) -> None:
    """Admit the code of an exported model: its trainable, its images and its network.

    Raises UsageError inside the exported folder, whose own files Python would import.
    """
    config = export.config
    spec = {"trainable": config.trainable, "training": config.training}
    members = config.combined.members if config.combined else ()
    configs = [config.config, *(member.config for member in members)]
    code = _find_code({**spec, "search": {"configs": configs}})
    if code and Path.cwd().is_relative_to(export.folder.resolve()):
        raise UsageError(
            f"{code[0].path} is imported from the working directory, and that is the "
            "exported folder: go to your own one, for no code of an export is run"
        )
    admit(code, export.folder, trust=trust)


def _find_code(spec: dict[str, Any]) -> list[NamedCode]:
    from tuner.experiment.resolve import add_module_folder
    from tuner.spec.code import find_code

    add_module_folder(Path.cwd())
    return find_code(spec)


def _find_experiment_code(experiment: Described) -> list[NamedCode]:
    """The code that the spec of an experiment and the configs of its trials name."""
    sections = {"trainable", "training", "search", "scheduler", "notify"}
    spec = experiment.spec.model_dump(mode="json", include=sections)
    if experiment.spec.ships:  # else `model` in a config may mean anything
        configs = [*spec["search"].get("configs", ()), *_list_models(experiment)]
        spec["search"] = {**spec["search"], "configs": configs}
    return _find_code(spec)


def _list_models(experiment: Described) -> list[dict[str, Any]]:
    """As configs, each `model` that a trial has, or a trial of its confirmation."""
    from tuner.experiment.events import TRIAL_STARTED
    from tuner.experiment.results.confirmation import find_confirmation
    from tuner.experiment.results.results import Results

    journals = [experiment.files]
    if isinstance(experiment, Results) and (
        confirmation := find_confirmation(experiment)
    ):
        journals.append(confirmation.results.files)
    models: dict[str, Any] = {}
    for journal in journals:
        for event in journal.read_events():
            if event["event"] == TRIAL_STARTED and "model" in event["config"]:
                model = event["config"]["model"]
                models[json.dumps(model)] = model
    return [{"model": model} for model in models.values()]


def ask(question: str, *, yes: bool, unattended: str) -> None:
    """Ask before an expensive or irreversible step; a no ends the command.

    yes: skip the question. Raises UsageError, with the text `unattended`, without a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(unattended)
    click.confirm(question, abort=True, err=True)
