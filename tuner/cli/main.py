"""The command line: its commands in the order of their help, and errors as exit codes.

Data goes to stdout, all else to stderr.
"""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

import click

from tuner.cli import doctor as checking
from tuner.cli import handing_over, judging, looking, searching, sending, understanding
from tuner.errors import TunerError
from tuner.wording import printable


class _InOrder(click.Group):
    """Lists its commands as they are added: first what a newcomer needs first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="tuner")
def cli() -> None:
    """Hyperparameter search for PyTorch image classifiers.

    Start with: tuner run digits
    """


for command in (
    searching.run,
    searching.validate,
    searching.resume,
    looking.list_,
    looking.show,
    looking.best,
    handing_over.export,
    handing_over.evaluate,
    understanding.report,
    understanding.compare,
    judging.confirm,
    judging.refine,
    looking.tensorboard,
    checking.doctor,
    sending.submit,
    sending.jobs,
    sending.logs,
    sending.stop,
):
    cli.add_command(command)


def main() -> NoReturn:
    """Run the command line and exit with its code; the one place where errors become codes."""
    try:
        code = cli.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt, EOFError):
        click.echo("aborted", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except TunerError as error:
        told = "\n".join(map(printable, str(error).splitlines()))  # it may quote a foreign file
        click.echo(f"error: {told}", err=True)
        code = error.exit_code
    except SystemExit:  # click ends so where our reader has gone: `tuner ls | head -1`
        code = 141
    gc.freeze()  # or the exit would first look for garbage in all of Ray and torch, for 0.3 s
    sys.exit(code or 0)


if __name__ == "__main__":
    main()
