"""Each benchmark is a command that says what it measures."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "benchmarks"
COMMANDS = sorted(
    f"benchmarks.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}"
    for path in ROOT.rglob("*.py")
    if 'if __name__ == "__main__"' in path.read_text() or path.name == "__main__.py"
)


@pytest.mark.parametrize("module", COMMANDS)
def test_benchmark_has_a_help_text(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    assert not ended.value.code
    assert "usage:" in capsys.readouterr().out
