"""What commands say of random searches, beside a plain reading of what the trials have reported.

Each story mixes limits, `from_epoch`, several objectives, priors, a default config that may have
failed or not begun, and trials of every status; where two of these meet is where answers go wrong.
"""

import json
from dataclasses import dataclass
from math import isclose

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Writer, make_folder

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

    def counts(self, epoch, report):
        allowed = {
            "ms <= 5": report["ms"] <= 5,
            "val_accuracy < 0.9": report["val_accuracy"] < 0.9,
            "ms <= 5 and val_accuracy >= 0.2": report["ms"] <= 5 and report["val_accuracy"] >= 0.2,
        }
        return epoch >= (self.from_epoch or 0) and all(allowed[limit] for limit in self.limits)

    def best(self):
        """(trial number, epoch, value) of the best report that counts, or None."""
        sign = -1 if self.mode == "max" else 1
        found = [
            (sign * report["val_accuracy"], number, epoch)
            for number, trial in enumerate(self.trials)
            for epoch, report in enumerate(trial.reports, 1)
            if trial.status != "failed" and self.counts(epoch, report)
        ]
        if not found:
            return None
        value, number, epoch = min(found)
        return number, epoch, sign * value

    def checkpoint(self, number):
        """The epoch whose checkpoint is handed over: of the reports that count, else of all."""
        trial, sign = self.trials[number], -1 if self.mode == "max" else 1
        reports = [*enumerate(trial.reports, 1)]
        counted = [(epoch, report) for epoch, report in reports if self.counts(epoch, report)]
        kept = [
            (sign * report["val_accuracy"], epoch)
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


def written(story, folder):
    objective = {
        "metric": "val_accuracy",
        "mode": story.mode,
        "limits": list(story.limits),
        "from_epoch": story.from_epoch,
        "others": list(story.others),
    }
    search = {"strategy": "random", "space": {"lr": story.domain}, "points_to_evaluate": [DEFAULT]}
    writer = Writer(make_folder(folder, objective=objective, search=search, scheduler=None))
    path = folder / "experiment.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {VALIDATION: {"images": 100, "baseline": 0.1}}))
    for number, trial in enumerate(story.trials):
        failed = ("exception", "ValueError: no") if trial.status == "failed" else None
        config = DEFAULT if number == 0 else trial.config
        trial_id = writer.trial(number, trial.reports, config=config, end=None)
        for epoch in trial.checkpoints:
            writer.checkpoint(trial_id, epoch)
        if trial.status:
            extra = {"error": {"kind": failed[0], "message": failed[1]}} if failed else {}
            writer.add("trial_ended", trial_id=trial_id, status=trial.status, **extra)
    writer.end()
    return Results(folder)


def said(command, folder, *options):
    """(whether it ended well, standard output) of a command, which ends in no traceback."""
    done = CliRunner().invoke(cli, [command, str(folder), *options])
    if done.exception and not isinstance(done.exception, TunerError):
        raise done.exception
    return done.exception is None, done.stdout


@given(story=STORIES)
def test_answers_about_random_searches_equal_a_plain_reading(story, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories") / "x"
    results, best = written(story, folder), story.best()
    has_best, output = said("best", folder, "--json")
    shown = json.loads(said("show", folder, "--json")[1])
    for command in (("show",), ("trials",), ("advise",), ("report", "--format", "json")):
        assert said(command[0], folder, *command[1:])[0]
    if best is None:
        assert (has_best, shown["best"]) == (False, None)
        return
    number, epoch, value = best
    named = json.loads(output)
    assert (named["trial_id"], named["epoch"]) == (f"{number:05}", epoch)
    assert isclose(named["metrics"]["val_accuracy"], value)
    assert shown["best"]["trial_id"] == named["trial_id"]
    assert results.get_best_trial().trial_id == named["trial_id"]
    usable = [
        n
        for n, trial in enumerate(story.trials)
        if trial.status != "failed"
        and any(story.counts(e, report) for e, report in enumerate(trial.reports, 1))
    ]
    assert {trial.trial_id for trial in results.top()} == {f"{n:05}" for n in usable}
    table = results.dataframe()
    counted = table.loc[~table["best/val_accuracy"].isna(), "trial_id"] if len(table) else []
    assert {f"{n:05}" for n in usable} <= {*counted}
    for n, trial in enumerate(story.trials):
        if trial.checkpoints:
            record = results.best_checkpoint(results.trial(str(n)))
            assert record.epoch == story.checkpoint(n)
    accuracy = results.accuracy(results.best_json())
    default = accuracy and accuracy.default
    is_compared = 0 in usable and results.get_best_trial().config != DEFAULT
    assert (default is not None) == is_compared
