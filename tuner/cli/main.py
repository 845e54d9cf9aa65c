"""The command line: its commands by section, and errors as exit codes.

A module here declares its commands (`options.Command`); a new file needs no list. Data goes to
stdout, all else to stderr.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn, get_args

import click

from tuner.cli.options import Command, Section
from tuner.errors import TunerError, UsageError
from tuner.plugins import Plugins
from tuner.signals import Interrupted, catch_signals, interrupt
from tuner.streams import ignore_stderr_errors, wrap_streams


class _Sections(click.Group):
    """Lists its commands by section: first what a newcomer needs first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        command = COMMANDS.load(cmd_name)
        if not isinstance(command, click.Command):
            raise UsageError(
                f"command {COMMANDS.describe(cmd_name)} must be a click.Command"
            )
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        longest = max(map(len, self.commands))
        for section in get_args(Section):
            rows = [
                (
                    name.ljust(longest),
                    command.get_short_help_str(formatter.width - longest - 6),
                )
                for name, command in self.commands.items()
                if isinstance(command, Command) and command.section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)
        if COMMANDS.entry_points:
            with formatter.section("Packages"):
                for name in COMMANDS.entry_points:
                    formatter.write_text(COMMANDS.describe(name))


@click.group(
    cls=_Sections,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="tuner")
def cli() -> None:
    """Hyperparameter search for PyTorch image classifiers.

    \b
    Start with
      tuner run digits           handwritten digits, which come along
      tuner run folder:photos    your own images, in a sub-folder for each class
    """
    check_here()


def check_here() -> None:
    """Raise UsageError if the working directory or the user's home folder does not exist.

    A container may run as a user without an account.
    """
    try:
        Path.cwd()
        Path.home()
    except FileNotFoundError:
        raise UsageError(
            "the working directory has been removed: go to one that exists"
        ) from None
    except RuntimeError:
        raise UsageError(
            f"user {os.getuid()} has no home folder: set HOME to a folder that it can write to"
        ) from None


def _collect_commands() -> list[Command]:
    """The commands that the modules beside this one declare, in the order of the help."""
    names = [
        module.name
        for module in pkgutil.iter_modules(import_module("tuner.cli").__path__)
    ]
    modules = [import_module(f"tuner.cli.{name}") for name in names if name != "main"]
    declared = [value for module in modules for value in vars(module).values()]
    commands = {
        command.name: command for command in declared if isinstance(command, Command)
    }
    sections = get_args(Section)
    return sorted(
        commands.values(),
        key=lambda command: (sections.index(command.section), command.order),
    )


for command in _collect_commands():
    cli.add_command(command)
COMMANDS = Plugins("command", cli.commands)


def main() -> NoReturn:
    # torch's threads that wait would take CPU time from other programs, and from each other
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with (
        ignore_stderr_errors(),
        catch_signals(interrupt),
    ):  # a search takes them over
        wrap_streams()
        code = _run_command()
    # Else the exit would first collect garbage in all of Ray and torch, for 0.3 s
    gc.freeze()
    sys.exit(code)


def _run_command() -> int:
    """Run the command; returns its exit code. Only here errors become codes."""
    code: int | None
    try:
        code = cli.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt, EOFError) as error:
        click.echo("aborted", err=True)
        cause = error.__cause__ or error  # click turns every interrupt into an Abort
        code = 128 + (cause.number if isinstance(cause, Interrupted) else signal.SIGINT)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except TunerError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except SystemExit:
        # Click ends so where the reader of stdout is gone: `tuner ls | head -1`
        code = 141
    return code or 0
