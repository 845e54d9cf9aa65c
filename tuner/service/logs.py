"""The end of a trial's log, as text that does no harm where it is shown."""

from __future__ import annotations

import os
import re

from tuner.errors import CheckpointError
from tuner.experiment.checkpoints import inside
from tuner.experiment.files import open_plain
from tuner.experiment.results.results import Results
from tuner.experiment.trials import TrialRecord
from tuner.wording import printable_lines

MOST = 1 << 18  # bytes
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


def log_of(results: Results, trial: TrialRecord) -> str:
    """The last lines of what a trial wrote, "" where it wrote nothing.

    Without colours, and of a line that was written over, as a progress bar is, what it came to.
    Only a plain file in the experiment's folder is read.
    """
    path = results.log_path(trial)
    try:
        path = inside(results.folder, path.relative_to(results.folder).as_posix())
        with os.fdopen(open_plain(path), "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - MOST)
            file.seek(start)
            data = file.read(MOST)
    except (OSError, CheckpointError):
        return ""
    if start:
        data = b"...\n" + data.partition(b"\n")[2]
    text = _COLOURS.sub("", data.decode(errors="replace"))
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return printable_lines("\n".join(lines))
