"""Commands of tuner that the server runs, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from tempfile import NamedTemporaryFile
from typing import Any

from tuner.errors import Fault, UsageError, translate_error
from tuner.service.queue.entries import ERROR
from tuner.service.remote_specs import check_remote
from tuner.spec.declaration import load_default_declaration
from tuner.spec.text import apply_assignments

_TIMEOUT_S = 600.0  # of a command: images may be many
Findings = list[dict[str, Any]]


def run_tuner(*arguments: str) -> str:
    """The output of a command of tuner, in a process of its own; UsageError if it fails."""
    command = [sys.executable, "-m", "tuner", *arguments]
    with translate_error(
        UsageError, "the command has no end", of=subprocess.TimeoutExpired
    ):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    if done.returncode:
        message = done.stderr.rpartition(ERROR)[2].strip()
        raise UsageError(message or f"the command has failed with {done.returncode}")
    return done.stdout


def compute_findings(
    name: str, storage: str | None, *, ask: str | None = None
) -> Findings:
    """The findings of `tuner advise --json`; raises UsageError.

    With many trials that takes seconds, which no other answer waits for.
    """
    options = ["--storage", storage] if storage else []
    if ask:
        options += ["--ask", ask]
    findings: Findings = json.loads(
        run_tuner("advise", "--json", *options, "--", name)
    )["findings"]
    return findings


def validate_experiment(
    experiment: str | dict[str, Any], settings: Sequence[str], storage: str | None
) -> dict[str, Any]:
    """What `tuner validate --json` prints of an experiment, with its spec.

    experiment: a name, images after a scheme as in folder:PATH, or a spec. settings: KEY=VALUE.
    storage: None for the default. Raises UsageError for a file, code, or a spec with faults.
    """
    raw = apply_assignments(
        experiment if isinstance(experiment, dict) else {}, settings
    )
    check_remote(raw)
    options = [] if storage is None else ["--storage", storage]
    schemes = tuple(load_default_declaration().schemes)
    with NamedTemporaryFile("w", suffix=".json") as file:
        if isinstance(experiment, dict):
            json.dump({"name": "search", **raw}, file)
            file.flush()
            experiment = file.name
            settings = ()
        elif (
            not experiment.isidentifier()
            and experiment.partition(":")[0] not in schemes
        ):
            rule = "must be a name, or images after a scheme"
            raise UsageError(str(Fault("experiment", rule, experiment, schemes)))
        try:
            output = run_tuner(
                "validate", "--json", *options, "--", experiment, *settings
            )
        except UsageError as error:
            raise UsageError(str(error).replace(file.name, "the spec")) from None
    plan = json.loads(output)
    spec = plan.pop("spec")
    return {"name": spec["name"], **plan, "spec": spec}
