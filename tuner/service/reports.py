"""The reports that were asked for, each made once for as long as its journal does not change."""

from __future__ import annotations

import threading
from pathlib import Path

from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results

_MOST_KEPT = 4  # pages of five megabytes


class Reports:
    """One report is made at a time: it takes seconds, and memory."""

    def __init__(self) -> None:
        self._made: dict[Path, tuple[object, str]] = {}
        self._making = threading.Lock()

    def page(self, folder: Path) -> str:
        """The report of the experiment in `folder`, as `tuner report` writes it."""
        from tuner.reporting.html import report_page
        from tuner.reporting.report import Report

        with self._making:
            mark = ExperimentFolder(folder).mark()
            known, page = self._made.pop(folder, (None, ""))
            if known != mark:
                page = report_page(Report(Results(folder)))
            self._made[folder] = mark, page
            for oldest in list(self._made)[:-_MOST_KEPT]:
                del self._made[oldest]
        return page
