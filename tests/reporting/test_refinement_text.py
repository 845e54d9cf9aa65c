"""What `tuner refine` says."""

import json
from pathlib import Path

from confirmed import searched

from tuner.experiment.results.refinement import refine
from tuner.reporting.refinement_text import describe_refinement, format_refinement


def test_refinement_text_shows_each_change(snapshot, tmp_path):
    space = {"lr": "loguniform(0.001, 1)"}
    search = searched(
        tmp_path / "digits", {0.1: 0.9}, search={"strategy": "random", "space": space}
    )
    refinement = refine(search, points=3)
    path = Path("my own.yaml")
    snapshot(format_refinement(refinement, path, space | {"k": 3}))
    snapshot(json.dumps(describe_refinement(refinement, path), indent=1))
