"""Random searches as folders without Ray, and a plain reading of what their trials have reported.

Each story mixes limits, `from_epoch`, several objectives, priors, a default config that may have
failed or not begun, and trials of every status; where two of these meet is where answers go wrong.
"""

import json
from dataclasses import dataclass

from click.testing import CliRunner
from hypothesis import strategies as st
from synthetic import Writer, make_folder, read_document

from tuner.cli.main import cli
from tuner.errors import TunerError
from tuner.experiment.results.results import Results
from tuner.experiment.results.statistics import VALIDATION

METRICS = ("val_accuracy", "ms")
STATUSES = ("completed", "stopped", "interrupted", "failed", None)
LIMITS = ("ms <= 5", "val_accuracy < 0.9", "ms <= 5 and val_accuracy >= 0.2")
DEFAULT = {"lr": 0.1}


@dataclass(frozen=True)
class Trial:
    status: str | None  # None: it runs, or is interrupted once the driver is gone
    reports: list[dict[str, float]]
    checkpoints: list[int]
    config: dict[str, float]


@dataclass(frozen=True)
class Story:
    mode: str
    limits: tuple[str, ...]
    from_epoch: int | None
    others: tuple[dict[str, str], ...]
    domain: str
    trials: list[Trial]

    def allows(self, report):
        allowed = {
            "ms <= 5": report["ms"] <= 5,
            "val_accuracy < 0.9": report["val_accuracy"] < 0.9,
            "ms <= 5 and val_accuracy >= 0.2": report["ms"] <= 5 and report["val_accuracy"] >= 0.2,
        }
        return all(allowed[limit] for limit in self.limits)

    def counts(self, epoch, report):
        return epoch >= (self.from_epoch or 0) and self.allows(report)

    @property
    def sign(self):
        return -1 if self.mode == "max" else 1

    def ranked(self):
        """(trial number, epoch, value) of the best report that counts of each trial, best first."""
        found = sorted(
            (self.sign * report["val_accuracy"], number, epoch)
            for number, trial in enumerate(self.trials)
            for epoch, report in enumerate(trial.reports, 1)
            if trial.status != "failed" and self.counts(epoch, report)
        )
        firsts = {}
        for value, number, epoch in found:
            firsts.setdefault(number, (number, epoch, self.sign * value))
        return list(firsts.values())

    def best(self):
        """(trial number, epoch, value) of the best report that counts, or None."""
        return next(iter(self.ranked()), None)

    def checkpoint(self, number):
        """The epoch whose checkpoint is handed over: of the reports that count, else of all."""
        trial = self.trials[number]
        reports = [*enumerate(trial.reports, 1)]
        counted = [(epoch, report) for epoch, report in reports if self.counts(epoch, report)]
        kept = [
            (self.sign * report["val_accuracy"], epoch)
            for epoch, report in counted or reports
            if epoch in trial.checkpoints
        ]
        return min(kept)[1] if kept else max(trial.checkpoints)


ROUNDED = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 0.95])
REPORT = st.fixed_dictionaries({"val_accuracy": ROUNDED, "ms": st.sampled_from([1, 5, 9])})


@st.composite
def trials(draw):
    reports = draw(st.lists(REPORT, max_size=4))
    epochs = range(1, len(reports) + 1)
    return Trial(
        draw(st.sampled_from(STATUSES)),
        reports,
        sorted(draw(st.sets(st.sampled_from(epochs))) if reports else ()),
        draw(st.sampled_from([DEFAULT, {"lr": 0.2}, {"lr": 0.3}])),
    )


STORIES = st.builds(
    Story,
    mode=st.sampled_from(["max", "min"]),
    limits=st.lists(st.sampled_from(LIMITS), max_size=2, unique=True).map(tuple),
    from_epoch=st.none() | st.integers(1, 4),
    others=st.sampled_from([(), ({"metric": "ms", "mode": "min"},)]),
    domain=st.sampled_from(["uniform(0.01, 1)", "uniform(0.01, 1, prior=0.2)"]),
    trials=st.lists(trials(), min_size=1, max_size=14),
)


def spec_of(story):
    """The fields of its spec that a story has."""
    objective = {
        "metric": "val_accuracy",
        "mode": story.mode,
        "limits": list(story.limits),
        "from_epoch": story.from_epoch,
        "others": list(story.others),
    }
    search = {"strategy": "random", "space": {"lr": story.domain}, "points_to_evaluate": [DEFAULT]}
    return {"objective": objective, "search": search, "scheduler": None}


def written(story, folder, *, content=lambda number, epoch: b"weights", **spec):
    """The experiment of a story. content: the bytes of a trial's checkpoint of an epoch."""
    writer = Writer(make_folder(folder, **spec_of(story) | spec))
    path = folder / "experiment.json"
    document = read_document(path)
    path.write_text(json.dumps(document | {VALIDATION: {"images": 100, "baseline": 0.1}}))
    for number, trial in enumerate(story.trials):
        write_trial(writer, number, trial, content)
    writer.end()
    return Results(folder)


def write_trial(writer, number, trial, content):
    """Journal a trial of a story; the first trial has the default config."""
    failed = ("exception", "ValueError: no") if trial.status == "failed" else None
    config = DEFAULT if number == 0 else trial.config
    trial_id = writer.trial(number, trial.reports, config=config, end=None)
    for epoch in trial.checkpoints:
        writer.checkpoint(trial_id, epoch, content(number, epoch))
    if trial.status:
        extra = {"error": {"kind": failed[0], "message": failed[1]}} if failed else {}
        writer.add("trial_ended", trial_id=trial_id, status=trial.status, **extra)


def said(command, folder, *options):
    """(whether it ended well, standard output) of a command, which ends in no traceback."""
    done = CliRunner().invoke(cli, [command, str(folder), *options])
    if done.exception and not isinstance(done.exception, TunerError):
        raise done.exception
    return done.exception is None, done.stdout
