"""Commands that label, rename and remove experiments: tag, note, rename, prune and rm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuner.cli import options
from tuner.cli.consent import ask
from tuner.cli.printing import format_json, warn
from tuner.errors import UsageError, translate_error
from tuner.wording import clean_text, format_amount, format_size

if TYPE_CHECKING:
    from tuner.experiment.results.described import Described
    from tuner.experiment.results.results import Results
    from tuner.experiment.results.upkeep import Pruned


@options.command(
    "Keep",
    1,
    "tuner tag digits baseline cnn",
    "tuner tag digits cnn --remove",
    "tuner tag digits",
)
@click.argument("name")
@click.argument("tags", nargs=-1, metavar="[TAG ...]")
@click.option("--remove", is_flag=True, help="Remove these tags.")
@options.storage_and_json
def tag(
    name: str, tags: tuple[str, ...], remove: bool, storage: str | None, as_json: bool
) -> None:
    """Add tags to experiment NAME, and show them.

    ls, show, compare and the report show them, and `tuner ls --tag TAG` finds experiments by them.
    """
    experiment = _open_experiment(name, storage)
    labels = experiment.labels
    if tags:
        labels = labels.remove_tags(tags) if remove else labels.add_tags(tags)
        labels.write(experiment.files)
    click.echo(
        format_json(list(labels.tags))
        if as_json
        else " ".join(labels.tags) or "no tags"
    )


@options.command(
    "Keep", 2, 'tuner note digits "before the images were cleaned"', "tuner note digits"
)
@click.argument("name")
@click.argument("text", required=False)
@options.storage_and_json
def note(name: str, text: str | None, storage: str | None, as_json: bool) -> None:
    """Write a note about experiment NAME, or show it.

    ls, show, compare and the report show it. An empty TEXT removes it.
    """
    experiment = _open_experiment(name, storage)
    labels = experiment.labels
    if text is not None:
        labels = labels.replace_note(text)
        labels.write(experiment.files)
    click.echo(
        format_json(labels.note) if as_json else clean_text(labels.note) or "no note"
    )


@options.command("Keep", 3)
@click.argument("name")
@click.argument("new", metavar="NEW_NAME")
@options.storage
def rename(name: str, new: str, storage: str | None) -> None:
    """Rename experiment NAME within its storage.

    An experiment that is running is refused.
    """
    from tuner.experiment.results.upkeep import rename_experiment

    click.echo(rename_experiment(_open_experiment(name, storage), new).files.location)


@options.command(
    "Keep",
    4,
    "tuner prune digits --keep 2 --dry-run",
    "tuner prune digits --keep 2 --yes",
)
@options.count(
    "--keep", "K", default=5, help="Keep the checkpoints of the K best trials."
)
@click.option("--dry-run", is_flag=True, help="Only say what it would remove.")
@click.option("--yes", is_flag=True, help="Remove them without asking.")
@options.experiment
@options.as_json
def prune(results: Results, keep: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove checkpoints of experiment NAME that nobody needs.

    The best trials keep theirs, and so do those that failed or have not ended, since a resume goes
    on from them. Metrics, logs and configs stay.
    """
    from tuner.experiment.results.results import Results
    from tuner.experiment.results.upkeep import find_prunable

    def format_pruned(pruned: Pruned) -> str:
        trials = format_amount(len(pruned.folders), "trial")
        return f"{clean_text(results.name)}: checkpoints of {trials}, {format_size(pruned.freed)}"

    pruned = find_prunable(results, keep=keep)
    done = ""
    if pruned.folders and not dry_run:
        if results.files.is_driven:  # said before it asks
            raise UsageError(f"{results.name} is running: end it before it is pruned")
        unattended = (
            "prune asks before it removes, and there is no terminal: give --yes"
        )
        ask(f"remove {format_pruned(pruned)}?", yes=yes, unattended=unattended)
        cannot = f"cannot prune {results.name}"
        done = "removed "
        with (
            results.files.lock_out_drivers(warn),
            translate_error(UsageError, cannot, of=OSError),
        ):
            # As it stands by now
            pruned = find_prunable(Results(results.folder), keep=keep)
            for folder in pruned.folders:
                results.files.remove_file(folder)
    plain = {
        "folders": pruned.folders,
        "freed": pruned.freed,
        "kept": list(pruned.kept),
    }
    click.echo(format_json(plain) if as_json else f"{done}{format_pruned(pruned)}")


def _open_experiment(name: str, storage: str | None) -> Described:
    from tuner.experiment.results.described import Described
    from tuner.experiment.storage import find_experiment

    return Described(find_experiment(name, storage))


@options.command("Keep", 5)
@click.argument("names", nargs=-1, required=True, metavar="NAME ...")
@click.option("--yes", is_flag=True, help="Remove them without asking.")
@options.storage
def rm(names: tuple[str, ...], yes: bool, storage: str | None) -> None:
    """Remove experiments with everything in their folders.

    It asks first. An experiment that is running is refused.
    """
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.storage import find_experiment

    folders = [ExperimentFolder(find_experiment(name, storage)) for name in names]
    for folder in folders:
        if folder.is_driven:
            raise UsageError(
                f"{folder.location} is running: end it before it is removed"
            )
    for folder in folders:
        files = folder.list_sizes()
        what = (
            f"{format_amount(len(files), 'file')}, {format_size(sum(files.values()))}"
        )
        click.echo(f"{clean_text(folder.location)}: {what}", err=True)
    unattended = "rm asks before it removes, and there is no terminal: give --yes"
    ask("remove for good?", yes=yes, unattended=unattended)
    for folder in folders:
        folder.remove(warn=warn)
        click.echo(f"removed {clean_text(folder.location)}")
