"""The examples of the reference: each file is valid, each command works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from commands import call

from tuner.experiment.resolve import resolve
from tuner.reporting.reference import reference
from tuner.spec.plan import warnings_of
from tuner.spec.space.spaces import config_at

BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", reference(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the reference shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    for kind, text in BLOCKS:
        if kind != "console":
            found = re.match(r"# ([\w.]+)\n", text)
            assert found, text
            (tmp_path / found[1]).write_text(text)
    return tmp_path


def test_every_command_works() -> None:
    lines = "".join(text for kind, text in BLOCKS if kind == "console").splitlines()
    assert len(lines) == 6
    for line in lines:
        words = shlex.split(line.removeprefix("$ tuner ").partition(" > ")[0], comments=True)
        done = call(*words)
        assert not done.exception, f"{line}\n{done.output}"
        assert done.stdout


def test_python_and_yaml_say_the_same() -> None:
    python, yaml = (resolve(name)[0] for name in ("my_spec.py", "my_spec.yaml"))
    assert python == yaml
    assert not warnings_of(yaml, here=False)


def test_the_conditional_space_gives_the_configs_that_it_says() -> None:
    spec = resolve("conditional.py")[0]
    low, high = (config_at(spec.search.space, lambda place, u=u: u) for u in (0.3, 0.9))
    assert low["layer"] == {"activation": "relu", "mult": 1.3}
    assert high["layer"] == {"activation": "tanh"}
