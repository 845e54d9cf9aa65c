"""Texts that tests compare with files, which `make snapshots` rewrites.

tests/snapshots/ROOM/MODULE.txt has a section for each test, which `pytest --rewrite-snapshots TEST`
rewrites.
"""

import difflib
import re
from contextlib import contextmanager
from pathlib import Path
from pprint import pformat

import pytest

TESTS = Path(__file__).parent
TEST = "=== "  # before the name of a section's test
NEXT = "\n-----\n"  # between the texts of a test
VARYING = {  # between runs and machines
    re.escape(str(TESTS.parent)): "REPOSITORY",
    r"/\S*/pytest-of-\w+/pytest-\d+/(?:popen-gw\d+/)?([\w-]+?)\d+(?=\W|$)": r"TMP/\1",
    r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])": "RANDOM",
    r"(?<=-)[0-9a-f]{12}\b": "DIGEST",
    r"(?<='time': )[\d.]+": "TIME",
    r"pid \d+ on [\w.-]+, since [\d-]+ [\d:]+": "pid N on HOST, since TIME",
    r"this machine's \d+": "this machine's N",
    r"127\.0\.0\.1(:|, port |', )\d{5}": r"127.0.0.1\1PORT",
}


class Snapshot:
    """The texts of one test.

    The test's `tmp_path` is written TMP. varying: what else differs, as in VARYING.
    """

    def __init__(self, request):
        self._test = request.node
        self._name = self._test.nodeid.partition("::")[2]
        self._rewrites = request.config.option.rewrite_snapshots
        self._file = (
            TESTS / "snapshots" / self._test.path.relative_to(TESTS).with_suffix(".txt")
        )
        self._texts = []

    def __call__(self, text, varying=None):
        """Compare the next text of the test."""
        folder = re.escape(str(self._test.funcargs.get("tmp_path", "no folder")))
        for pattern, name in {folder: "TMP", **(varying or {}), **VARYING}.items():
            text = re.sub(pattern, name, text)
        self._texts.append(
            "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        )
        sections = _read(self._file)
        if self._rewrites:
            sections[self._name] = NEXT.join(self._texts)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            parts = [f"{TEST}{name}\n{sections[name]}\n" for name in sorted(sections)]
            self._file.write_text("\n".join(parts), encoding="utf-8")
            return
        expected = sections.get(self._name, "").split(NEXT)[len(self._texts) - 1 :][:1]
        if expected != self._texts[-1:]:
            lines = ("".join(expected).splitlines(), self._texts[-1].splitlines())
            diff = "\n".join(
                difflib.unified_diff(*lines, str(self._file), "this run", lineterm="")
            )
            pytest.fail(f"{diff}\nto accept it: pytest --rewrite-snapshots")

    def compare_value(self, value):
        """Compare the next value of the test, as Python writes it."""
        self(pformat(value, width=96, compact=True, sort_dicts=False))

    @contextmanager
    def raises(self, *kinds, varying=None):
        """Expect an error of one of `kinds`, and compare its message."""
        with pytest.raises(kinds) as raised:
            yield raised
        self(str(raised.value), varying)


def _read(file):
    text = f"\n{file.read_text(encoding='utf-8')}" if file.exists() else ""
    parts = (section.partition("\n") for section in text.split(f"\n{TEST}")[1:])
    return {name: body.rstrip("\n") for name, _, body in parts}
