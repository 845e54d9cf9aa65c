"""A page of the documentation, or an example, as the tests that hold it read and run it."""

import ast
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import commands
import pytest
from click.testing import Result

ROOT = Path(__file__).parents[1]
LIMIT_S = 600
# A process takes longer to start than to train so little
IN_ONE_PROCESS = "--max-concurrent 1"


def with_options(line: str, options: str) -> str:
    """A command with further options if it runs a search."""
    command, mark, comment = line.partition("  #")
    return (
        f"{command} {options}{mark}{comment}" if line.startswith("tuner run ") else line
    )


_WHY = r"^  (Trial \d+ validated|It has the default config).*?\.\n"


def find_shape(output: str) -> list[str]:
    """The lines of an output with # for each number or duration, each of equal neighbours once.

    Why the best trial is the best one is left out: it depends on which trials ASHA stops.
    """
    output = re.sub(_WHY, "", output, flags=re.M | re.S)
    lines = re.sub(r"(\d+m )?\d[\d.e+-]*", "#", output).splitlines()
    return [
        line for line, _ in groupby(" ".join(line.split()) for line in lines) if line
    ]


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


class Example:
    """A file of examples/: its commands, each with the output that its docstring records."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.text = path.read_text()
        docstring = ast.get_docstring(ast.parse(self.text)) or ""
        _, *sessions = re.split(r"(?m)^    \$ ", docstring)
        self.sessions = [session.partition("\n")[::2] for session in sessions]

    def skip_without_packages(self) -> None:
        for package in re.findall(r"(?m)^(?:import|from) (\w+)", self.text):
            if find_spec(package) is None:
                pytest.skip(
                    f"{self.name} needs {package}: install the extra `examples`"
                )


EXAMPLES = [Example(path) for path in sorted((ROOT / "examples").glob("*.py"))]


def run_in_shell(command: str, folder: Path) -> str:
    """What a command prints in a folder, with `tuner` on the PATH; it may not fail."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    environment.pop("TUNER_STORAGE", None)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
