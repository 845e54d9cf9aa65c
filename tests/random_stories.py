"""Random searches as folders without Ray, and a plain reading of what their trials have reported.

Each story mixes limits, `from_epoch`, several objectives, priors, a default config that may have
failed or not begun, and trials of every status; where two of these meet is where answers go wrong.
"""

import json
from dataclasses import dataclass
from math import exp, sqrt
from statistics import NormalDist

from click.testing import CliRunner
from hypothesis import strategies as st
from synthetic import Writer, make_folder, read_document

from tuner.cli.main import cli
from tuner.errors import TunerError
from tuner.experiment.results.accuracy import VALIDATION
from tuner.experiment.results.results import Results

METRICS = ("val_accuracy", "ms")
STATUSES = ("completed", "stopped", "interrupted", "failed", None)
LIMITS = ("ms <= 5", "val_accuracy < 0.9", "ms <= 5 and val_accuracy >= 0.2")
DEFAULT = {"lr": 0.1}
IMAGES = 100  # that validate


def worth(losses, place):
    """The mean of the losses around a place, by the definition."""
    here = losses[place]
    width = min(2, len(losses) / 8)
    total = 0
    weights = 0
    for other, loss in enumerate(losses):
        weight = exp(-abs(other - place) / width)
        weights += weight
        total += weight * (loss - here)
    return here + total / weights


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
    choose: str = "best_epoch"
    has_default: bool = False  # trial 0 has the first of points_to_evaluate

    def allows(self, report):
        allowed = {
            "ms <= 5": report["ms"] <= 5,
            "val_accuracy < 0.9": report["val_accuracy"] < 0.9,
            "ms <= 5 and val_accuracy >= 0.2": report["ms"] <= 5
            and report["val_accuracy"] >= 0.2,
        }
        return all(allowed[limit] for limit in self.limits)

    def counts(self, epoch, report):
        return epoch >= (self.from_epoch or 0) and self.allows(report)

    @property
    def sign(self):
        return -1 if self.mode == "max" else 1

    def counted(self, reports):
        """(epoch, loss) of the reports that count."""
        found = []
        for epoch, report in enumerate(reports, 1):
            if self.counts(epoch, report):
                found.append((epoch, self.sign * report["val_accuracy"]))
        return found

    def named(self, counted):
        """(what it is worth, epoch, loss) of the best epoch among (epoch, loss)."""
        losses = [loss for _, loss in counted]
        best = 0
        for newest in range(1, len(losses)):
            so_far = losses[: newest + 1]
            if self.worth(so_far, newest) < self.worth(so_far, best):
                best = newest
        return (self.worth(losses, best), *counted[best])

    def worth(self, losses, place):
        """The mean of the losses around a place, by their distances; or the one loss."""
        if self.choose == "best_epoch":
            return losses[place]
        return worth(losses, place)

    def ranked(self):
        """(trial number, epoch, value) of the best report that counts of each trial, best first."""
        found = []
        for number, trial in enumerate(self.trials):
            counted = self.counted(trial.reports)
            if trial.status != "failed" and counted:
                worth, epoch, loss = self.named(counted)
                other = trial.reports[epoch - 1]["ms"] if self.others else 0
                found.append((round(worth, 12), other, number, epoch, self.sign * loss))
        found.sort()
        has_choice = self.choose == "estimate" and not self.others
        if found and self.has_default and has_choice:
            leader = found[0][0]
            found.sort(
                key=lambda each: each[2] != 0 or not self.is_close(each[0], leader)
            )
        return [(number, epoch, value) for *_, number, epoch, value in found]

    def front(self):
        """The numbers of the trials that no other is as good as in both objectives."""
        points = {}
        for number, *_ in self.ranked():
            counted = self.counted(self.trials[number].reports)
            worth, epoch, _ = self.named(counted)
            ms = self.trials[number].reports[epoch - 1]["ms"]
            points.setdefault((round(worth, 12), ms), number)
        front = []
        for worth, ms in points:
            better = [
                w <= worth and m <= ms for w, m in points if (w, m) != (worth, ms)
            ]
            if not any(better):
                front.append(points[worth, ms])
        return front

    def is_close(self, default, leader):
        """Whether the default's worth is in Wilson's interval of half a standard error."""
        share = self.sign * leader
        squared = NormalDist().inv_cdf(1.383 / 2) ** 2
        centre = share + squared / (2 * IMAGES)
        reach = sqrt(
            squared * (share * (1 - share) / IMAGES + squared / (4 * IMAGES**2))
        )
        scale = 1 + squared / IMAGES
        return abs(self.sign * default - centre / scale) <= reach / scale

    def best(self):
        """(trial number, epoch, value) of the best report that counts, or None."""
        return next(iter(self.ranked()), None)

    def checkpoint(self, number):
        """The epoch whose checkpoint is handed over: of the reports that count, else of all."""
        trial = self.trials[number]
        losses = [self.sign * report["val_accuracy"] for report in trial.reports]
        curve = self.counted(trial.reports) or [*enumerate(losses, 1)]
        if self.named(curve)[1] in trial.checkpoints:
            return self.named(curve)[1]
        losses = [loss for _, loss in curve]
        kept = []
        for place, (epoch, _) in enumerate(curve):
            if epoch in trial.checkpoints:
                kept.append((self.worth(losses, place), epoch))
        return min(kept)[1] if kept else max(trial.checkpoints)


ROUNDED = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 0.95])
REPORT = st.fixed_dictionaries(
    {"val_accuracy": ROUNDED, "ms": st.sampled_from([1, 5, 9])}
)


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
    choose=st.sampled_from(["estimate", "best_epoch"]),
    has_default=st.booleans(),
)


def spec_of(story):
    """The fields of its spec that a story has."""
    objective = {
        "metric": "val_accuracy",
        "mode": story.mode,
        "limits": list(story.limits),
        "choose": story.choose,
        "from_epoch": story.from_epoch,
        "others": list(story.others),
    }
    search = {
        "strategy": "random",
        "space": {"lr": story.domain},
        "points_to_evaluate": [DEFAULT],
    }
    return {"objective": objective, "search": search, "scheduler": None}


def written(story, folder, *, content=lambda number, epoch: b"weights", **spec):
    """The experiment of a story. content: the bytes of a trial's checkpoint of an epoch."""
    writer = Writer(make_folder(folder, **spec_of(story) | spec))
    path = folder / "experiment.json"
    document = read_document(path)
    path.write_text(
        json.dumps(document | {VALIDATION: {"images": IMAGES, "baseline": 0.1}})
    )
    for number, trial in enumerate(story.trials):
        origin = {"origin": "initial"} if number == 0 and story.has_default else {}
        write_trial(writer, number, trial, content, **origin)
    writer.end()
    return Results(folder)


def write_trial(writer, number, trial, content, **fields):
    """Journal a trial of a story; the first trial has the default config."""
    failed = ("exception", "ValueError: no") if trial.status == "failed" else None
    config = DEFAULT if number == 0 else trial.config
    trial_id = writer.trial(number, trial.reports, config=config, end=None, **fields)
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
