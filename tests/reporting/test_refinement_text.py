"""What is said of a refined search."""

from __future__ import annotations

import json
from pathlib import Path

from confirmed import searched

from tuner.reporting.refinement_text import refinement_json, refinement_text
from tuner.results.refinement import refine


def test_each_domain_beside_what_it_was_and_the_command(tmp_path: Path) -> None:
    space = {"lr": "loguniform(0.001, 1)", "k": 3}
    search = searched(
        tmp_path / "digits", {0.1: 0.9}, search={"strategy": "random", "space": {"lr": space["lr"]}}
    )
    refinement = refine(search, points=3)
    path = Path("my own.yaml")
    assert refinement_text(refinement, path, space).splitlines() == [
        "The region of the best 1 of 2 trials of digits: val_accuracy 0.9 to 0.9.",
        "3 trials, 3 values of each continuous domain.",
        "  lr  loguniform(0.0501, 0.2)  (was loguniform(0.001, 1))",
        "Written to my own.yaml",
        "Run it with: tuner run 'my own.yaml'",
    ]
    assert json.loads(json.dumps(refinement_json(refinement, path))) == {
        "path": "my own.yaml",
        "command": "tuner run 'my own.yaml'",
        "trials": 3,
        "leading": ["00000"],
        "space": {"lr": "loguniform(0.0501, 0.2)"},
    }
