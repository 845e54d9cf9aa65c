"""A page of the documentation, as the tests that hold it read and run it."""

import re
import shlex
from pathlib import Path

import commands
from click.testing import Result

ROOT = Path(__file__).parents[1]
IN_ONE_PROCESS = "--max-concurrent 1"  # a process takes longer to start than to train so little


def with_options(line: str, options: str) -> str:
    """A command with further options if it runs a search."""
    command, mark, comment = line.partition("  #")
    return f"{command} {options}{mark}{comment}" if line.startswith("tuner run ") else line


class Page:
    """A page by its path below the repository's root: its text, files, blocks and commands."""

    def __init__(self, path: str) -> None:
        self.text = (ROOT / path).read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        """The contents of its fenced blocks of one language."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.M | re.S)

    def block(self, head: str) -> str:
        """The block of text that begins so."""
        return next(block for block in self.blocks("text") if block.startswith(head))

    @property
    def files(self) -> dict[str, str]:
        """The files that it shows whole: a block whose first line is `# NAME`."""
        return {
            block.partition("\n")[0].removeprefix("# "): block
            for block in self.blocks(r"\w+")
            if re.match(r"# [\w/]+\.\w+\n", block)
        }

    def write_files(self, folder: Path) -> None:
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    @property
    def commands(self) -> list[str]:
        """The lines that it shows at a prompt, without the prompt."""
        shown = "".join(self.blocks("console")).splitlines()
        assert all(line.startswith("$ ") for line in shown)
        return [line.removeprefix("$ ") for line in shown]

    def run_commands(self) -> list[Result]:
        """What each of them, all `tuner ...`, came to in this process, where none may fail."""
        assert self.commands
        return [self.run_command(line) for line in self.commands]

    @staticmethod
    def run_command(line: str, *more: str) -> Result:
        """What a command of the page, with these arguments added, came to."""
        program, *words = shlex.split(line, comments=True)
        assert program == "tuner", line
        done = commands.call(*words, *more)
        assert not done.exception, f"{line}\n{done.output}"
        assert not done.return_value, f"{line}\n{done.output}"
        return done
