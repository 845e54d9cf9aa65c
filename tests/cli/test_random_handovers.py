"""What is made of random searches: exports, confirmations, refits, soups, comparisons, warm starts.

Each equals a plain reading of what the trials have reported.
"""

import io
import json
from dataclasses import replace
from functools import partial
from math import isclose
from typing import ClassVar

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_stories import (
    DEFAULT,
    LIMITS,
    REPORT,
    STORIES,
    said,
    spec_of,
    write_trial,
    written,
)
from safetensors.torch import load_file
from synthetic import TRAINABLE, Writer, make_folder, read_document

from tuner.errors import NoUsableTrialError, SpecError, UsageError
from tuner.experiment.files import REFITTED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.comparison import compare
from tuner.experiment.results.confirmation import link
from tuner.experiment.results.results import Results
from tuner.search.retraining import build_confirm_spec, build_refit_spec
from tuner.search.run import describe
from tuner.search.searchers._learning import list_first_configs
from tuner.search.warm_start import build_warm_start
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.declaration import Declaration
from tuner.spec.experiment import build_spec
from tuner.vision.export.soup import soup
from tuner.vision.image_classifier import ImageClassifier

SHIPPED = {"model": "cnn", "dataset": "digits", "width": 4, "batch_size": 64}
FEW = settings(
    max_examples=max(5, settings.default.max_examples * 2 // 5)
)  # where files are written


def state(*numbers):
    """The bytes of a checkpoint whose model is these numbers."""
    file = io.BytesIO()
    torch.save({"model": {"numbers": torch.tensor(numbers)}}, file)
    return file.getvalue()


def exported(folder, to, *options):
    """The numbers of the exported model, first its trial and epoch; None where there is none."""
    if not said("export", folder, "--to", str(to), *options)[0]:
        assert not to.exists()
        return None
    config = read_document(to / "config.json")
    model = load_file(to / "model.safetensors")["numbers"].tolist()
    assert model[:2] == [int(config["trial_id"]), config["epoch"]]
    return tuple(model)


def config_of(story, number):
    return DEFAULT if number == 0 else story.trials[number].config


def leaders_of(story, most):
    """The best trials of different configs as (number, value), best first."""
    firsts = {}
    for number, _, value in story.ranked():
        firsts.setdefault(str(config_of(story, number)), (number, value))
    return list(firsts.values())[:most]


def retrain(spec, trials, content, **fails):
    """The experiment that retrains, as its trials (whether completed, reports) have gone.

    content: the bytes of a trial's checkpoint of an epoch. fails: how the other trials end.
    """
    ExperimentFolder(spec.folder).create(describe(spec))
    writer = Writer(spec.folder)
    for number, (is_completed, reports) in enumerate(trials):
        leader, seed = divmod(number, len(spec.search.seeds))
        varied = {
            "config": spec.search.configs[leader],
            "seed": spec.search.seeds[seed],
        }
        writer.add("trial_started", trial_id=f"{number:05}", **varied)
        for epoch, report in enumerate(reports, 1):
            writer.add("result", trial_id=f"{number:05}", epoch=epoch, metrics=report)
            writer.checkpoint(f"{number:05}", epoch, content(number, epoch))
        ended = {"status": "completed"} if is_completed else fails
        writer.add("trial_ended", trial_id=f"{number:05}", **ended)
    writer.end()


# Completed, its reports
RETRAINED = st.tuples(st.booleans(), st.lists(REPORT, max_size=3))


@FEW
@given(
    story=STORIES,
    top=st.integers(1, 3),
    seeds=st.integers(1, 3),
    retrained=st.lists(RETRAINED, min_size=9, max_size=9),
)
def test_confirmation_chooses_what_a_plain_reading_chooses(
    story, top, seeds, retrained, tmp_path_factory
):
    place = tmp_path_factory.mktemp("confirmations")
    search = written(story, place / "x", content=state, storage=str(place))
    leaders = leaders_of(story, top)
    assume(leaders)
    spec = build_confirm_spec(search, top=top, seeds=seeds)
    assert [*spec.confirms.trials] == [f"{number:05}" for number, _ in leaders]
    assert [*spec.confirms.values] == [value for _, value in leaders]
    assert [*spec.search.configs] == [config_of(story, number) for number, _ in leaders]
    assert spec.search.seeds == tuple(range(2, 2 + seeds))
    trials = retrained[: len(leaders) * seeds]
    retrain(spec, trials, state, status="failed", error={"kind": "nan", "message": "m"})
    link(search, spec.name)
    # Of each leader: trial number -> its best value that counts
    values = [{} for _ in leaders]
    for number, (is_completed, reports) in enumerate(trials):
        counted = story.counted(reports)
        if is_completed and counted:
            worth, epoch, loss = story.named(counted)
            other = reports[epoch - 1]["ms"] if story.others else 0
            values[number // seeds][number] = loss, epoch, (round(worth, 12), other)

    def rank(leader):
        mean = sum(value for value, *_ in values[leader].values()) / len(values[leader])
        return -len(values[leader]), round(mean, 9), leader

    confirmed = [leader for leader in range(len(leaders)) if values[leader]]
    is_well, output = said("best", place / "x", "--json")
    assert is_well
    if not confirmed:
        assert json.loads(output)["trial_id"] == f"{story.best()[0]:05}"
        return
    chosen = min(confirmed, key=rank)
    number = min(values[chosen], key=lambda number: (values[chosen][number][2], number))
    epoch = values[chosen][number][1]
    shown = json.loads(output)
    assert shown["shown"] == "confirmed"
    mean = (
        story.sign * sum(v for v, *_ in values[chosen].values()) / len(values[chosen])
    )
    assert isclose(shown["confirmed"]["mean"], mean)
    ties = [leader for leader in confirmed if rank(leader)[:2] == rank(chosen)[:2]]
    assert shown["trial_id"] in {f"{leaders[leader][0]:05}" for leader in ties}
    if len(ties) == 1:
        assert exported(place / "x", place / "model") == (number, epoch)


@FEW
@given(story=STORIES, folds=st.sampled_from([None, 4]), number=st.integers(-1, 13))
def test_refit_trains_what_a_plain_reading_finds(
    story, folds, number, tmp_path_factory
):
    training = {**SHIPPED, "folds": folds, "fold_epochs": 7} if folds else SHIPPED
    results = written(
        story,
        tmp_path_factory.mktemp("refits") / "x",
        trainable=IMAGE_CLASSIFIER,
        training=training,
        scheduler={"name": "none", "max_t": folds or 4},
    )
    best = story.best()
    assume(best and number < len(story.trials))
    trial_id = None if number < 0 else str(number)
    chosen = best[0] if number < 0 else number
    losses = [
        story.sign * report["val_accuracy"] for report in story.trials[chosen].reports
    ]
    if not losses:
        with pytest.raises(UsageError, match="never reported"):
            build_refit_spec(results, trial_id=trial_id)
        return
    counted = story.counted(story.trials[chosen].reports)
    _, epoch, value = story.named(counted or [*enumerate(losses, 1)])
    spec = build_refit_spec(results, trial_id=trial_id)
    assert [*spec.search.configs] == [config_of(story, chosen)]
    assert (spec.refits.trial_id, spec.refits.epoch) == (f"{chosen:05}", epoch)
    assert isclose(spec.refits.value, story.sign * value)
    assert (spec.epochs, spec.training.get("folds")) == (7 if folds else epoch, None)
    objective = spec.objective
    assert objective.limits == objective.others == ()
    assert objective.from_epoch is None


class AllData(Declaration):
    refit: ClassVar = {"all_data": True}


class Refittable:
    declaration = AllData()


REFITS = st.fixed_dictionaries(
    {
        "is_linked": st.sampled_from([True, True, False]),
        # -1: what validation chooses
        "number": st.sampled_from([-1, -1, -1, *range(14)]),
        "completed": st.lists(st.booleans(), min_size=1, max_size=2),  # of each seed
    }
)
CONFIRMED = st.lists(
    st.sampled_from([0.2, 0.4, 0.6, 0.8]), min_size=2, max_size=2, unique=True
)


@FEW
@given(
    story=STORIES,
    later=STORIES,
    acts=st.lists(REFITS | CONFIRMED | st.just("more trials"), min_size=1, max_size=4),
)
def test_refit_is_handed_over_as_long_as_it_is_of_what_validation_chooses(
    story, later, acts, tmp_path_factory
):
    place = tmp_path_factory.mktemp("refitted")
    if any(isinstance(act, list) for act in acts):
        # So that all leaders may be retrained
        story = replace(story, limits=(), from_epoch=None, others=())
    fields = {
        "trainable": f"{__name__}:Refittable",
        "training": {},
        "scheduler": {"name": "none", "max_t": 4},
        "storage": str(place),
        "refit": True,
    }
    folder = written(story, place / "x", content=state, **fields).folder
    # (name, is linked, whose model: experiment, trial and epoch, how it has ended)
    refits = []
    # (its name, trial and epoch that are chosen, the trials that it is of)
    confirmation = None
    names = {"x"}
    for act in acts:
        results = Results(folder)
        if not story.best():
            break
        if act == "more trials":
            story = replace(story, trials=[*story.trials, *later.trials])
            writer = Writer(folder, resumed=True)
            for number, trial in enumerate(later.trials, len(results.trials)):
                write_trial(writer, number, trial, state)
            writer.end()
        elif isinstance(act, list):
            leaders = leaders_of(story, 2)
            spec = build_confirm_spec(results, top=len(leaders), seeds=1)
            values = act[: len(leaders)]
            trials = [(True, [{"val_accuracy": value, "ms": 1}]) for value in values]
            retrain(spec, trials, lambda number, epoch: state(number, epoch, -1))
            link(results, spec.name)
            chosen = min(
                range(len(values)), key=lambda number: story.sign * values[number]
            )
            confirmation = spec.name, chosen, {number for number, _ in leaders}
            names.add(spec.name)
        else:
            number = act["number"] if act["number"] < len(story.trials) else -1
            if number >= 0 and not story.trials[number].reports:
                continue
            seeds = len(act["completed"])
            trial_id = None if number < 0 else str(number)
            spec = build_refit_spec(results, trial_id=trial_id, seeds=seeds)
            reports = [
                {"epochs_trained": float(epoch + 1)} for epoch in range(spec.epochs)
            ]
            trials = [
                (done, reports if done else reports[:-1]) for done in act["completed"]
            ]
            kind = len(refits)
            content = partial(
                lambda kind, number, epoch: state(number, epoch, kind), kind
            )
            retrain(spec, trials, content, status="interrupted")
            if act["is_linked"]:
                link(results, spec.name, REFITTED)
            of = spec.refits.name, int(spec.refits.trial_id), spec.refits.epoch
            last = 0, spec.epochs, kind
            refits.append((spec.name, act["is_linked"], of, act["completed"][0], last))
            names.add(spec.name)
    best = story.best()
    expected = validated = None
    if best:
        validated = "x", best[0], best[1]
        expected = (
            (best[0], story.checkpoint(best[0]))
            if story.trials[best[0]].checkpoints
            else None
        )
        if confirmation and best[0] in confirmation[2]:
            validated = confirmation[0], confirmation[1], 1
            expected = confirmation[1], 1, -1
    refit = None
    for name, is_linked, of, is_completed, model in refits:  # the newest one counts
        if is_linked and is_completed and of == validated:
            refit = name
            expected = model
    assert exported(folder, place / "model") == expected
    shown = json.loads(said("show", folder, "--json")[1])
    assert shown.get("refit") == refit
    assert said("report", folder, "--format", "json")[0]
    kept = {name for name, is_linked, *_ in refits if is_linked}
    if confirmation:
        kept |= {name for name in names if name.startswith("x-confirm")}
    if kept:
        kept.add("x")
    for name in names:
        is_renamed, _ = said("rename", place / name, f"other-{name}")
        assert is_renamed == (name not in kept)
        if is_renamed:
            (place / f"other-{name}").rename(place / name)


@FEW
@given(
    stories=st.tuples(STORIES, STORIES),
    limits=st.sets(st.sampled_from(LIMITS), max_size=2),
)
def test_comparison_takes_the_values_that_a_plain_reading_takes(
    stories, limits, tmp_path_factory
):
    place = tmp_path_factory.mktemp("comparisons")
    first, second = stories
    alike = {
        name: getattr(first, name)
        for name in ("mode", "others", "from_epoch", "choose")
    }
    second = replace(second, **alike)
    stories = [
        replace(story, limits=tuple(sorted(limits))) for story in (first, second)
    ]
    folders = [
        written(s, place / f"{n}", seed=n + 1).folder for n, s in enumerate(stories)
    ]
    curves = []
    for story in stories:
        steps = []
        for number, trial in enumerate(story.trials):
            for epoch in range(len(trial.reports)):
                shorter = replace(trial, reports=trial.reports[: epoch + 1])
                begun = [*story.trials[:number], shorter]
                best = replace(story, trials=begun, has_default=False).best()
                steps.append(story.sign * best[2] if best else None)
        curves.append(steps)
    usable = [curve for curve in curves if curve and curve[-1] is not None]
    if not usable:
        assert not said("compare", folders[0], str(folders[1]))[0]
        return
    shown = compare(*folders).as_dict()
    budget = min(map(len, usable))
    assert shown["budgets"]["epochs"] == budget
    entrants = [each for side in shown["strategies"] for each in side["experiments"]]
    for number, (story, curve) in enumerate(zip(stories, curves, strict=True)):
        [entrant] = [each for each in entrants if each["name"] == str(number)]
        best = curve[-1] if curve else None
        assert entrant["best"] == (None if best is None else story.sign * best)
        assert (entrant["epochs"], entrant["trials"]) == (len(curve), len(story.trials))
    for side in shown["strategies"]:
        within = [curves[int(each["name"])][:budget] for each in side["experiments"]]
        values = [
            first.sign * curve[-1]
            for curve in within
            if curve and curve[-1] is not None
        ]
        mean = side["at"]["epochs"]
        assert (mean is not None) == bool(values)
        assert mean is None or isclose(mean["mean"], sum(values) / len(values))


def warm_started(story, strategy, place, **changes):
    """The fields of a spec that searches the space of `story` after the experiments in `place`."""
    fields = spec_of(story)
    fields["search"]["strategy"] = strategy
    if strategy != "random":
        fields["search"] |= {"startup": 2}
    return {
        **fields,
        "name": "second",
        "trainable": TRAINABLE,
        "training": {"model": "cnn", "dataset": "digits"},
        "scheduler": "none",
        "storage": str(place),
        **changes,
    }


# What an earlier experiment may have that the new one lacks, or lack that this has
OTHERNESS = st.fixed_dictionaries(
    {
        "metric": st.sampled_from(["val_accuracy", "val_accuracy", "f1"]),
        "space": st.sampled_from(
            ["lr", "lr", "lr and momentum", "momentum", "nothing alike"]
        ),
        "dataset": st.sampled_from(["digits", "cifar10"]),
    }
)
CONFIGS = {  # of a trial whose learning rate is this
    "lr": lambda lr: {"lr": lr},
    "lr and momentum": lambda lr: {"lr": lr, "momentum": 0.5},
    "momentum": lambda lr: {"momentum": lr},
    "nothing alike": lambda lr: {"depth": lr},
}


@FEW
@given(
    earlier=st.lists(st.tuples(STORIES, OTHERNESS), min_size=2, max_size=3),
    story=STORIES,
    strategy=st.sampled_from(["random", "hyperopt", "bayesopt"]),
    has_momentum=st.booleans(),
    complete=st.booleans(),
)
def test_warm_start_gives_the_trials_that_a_plain_reading_finds(
    earlier, story, strategy, has_momentum, complete, tmp_path_factory
):
    place = tmp_path_factory.mktemp("earlier")
    for number, (before, otherness) in enumerate(earlier):
        write_otherwise(before, place / f"e{number}", **otherness)
    if strategy != "random":
        story = replace(story, others=())
    names = [f"e{number}" for number in range(len(earlier))]
    warm_start = "." if complete else names
    fields = warm_started(story, strategy, place, warm_start=warm_start, num_samples=12)
    if has_momentum:
        fields["search"]["space"]["momentum"] = "uniform(0, 1)"
        fields["search"]["points_to_evaluate"] = []
    spec = build_spec(fields)
    limits_only = replace(story, from_epoch=None)
    leaders = []
    tried = []
    used = []  # leaders: of each experiment the configs of its best value
    for number, (before, otherness) in enumerate(earlier):
        matches = []
        for n, trial in enumerate(before.trials):
            config = CONFIGS[otherness["space"]](config_of(before, n)["lr"])
            searched = {"lr", "momentum"} if has_momentum else {"lr"}
            if trial.status not in (
                "completed",
                "stopped",
                "failed",
            ) or not searched & {*config}:
                continue
            if not 0.01 <= config.get("lr", 0.1) <= 1:
                continue
            reports = trial.reports if otherness["metric"] == "val_accuracy" else []
            values = [
                (epoch, report["val_accuracy"])
                for epoch, report in enumerate(reports, 1)
                if limits_only.counts(epoch, report)
            ]
            middle = {"lr": 0.505, "momentum": 0.5}
            new = {name: config.get(name, middle[name]) for name in searched}
            is_alike = otherness["dataset"] == "digits" and new == config
            if values or trial.status == "failed" or reports:
                failed = trial.status == "failed" or not values
                is_tried = is_alike and trial.status != "failed"
                matches.append((f"{n:05}", new, tuple(values), failed, is_tried))
        usable = [match for match in matches if not match[3]]
        if usable:
            used.append(number)
            tried += [match for match in matches if match[4]]
            leaders.append([match[1] for match in usable if not match[4]])
    if not used and not complete:
        with pytest.raises(SpecError):
            build_warm_start(spec)
        return
    made = build_warm_start(spec)
    trials = [(t.trial_id, t.config, t.values, t.failed, t.tried) for t in made.trials]
    assert trials == tried
    here = [config for _, config, *_ in tried]
    leaders = [
        [config for config in configs if config not in here] for configs in leaders
    ]
    offered = [config for configs in leaders for config in configs]
    assert all(config in offered for config in made.portfolio)
    # A quarter of 12 trials
    assert len(made.portfolio) <= min(3, sum(map(bool, leaders)))
    assert bool(made.portfolio) == bool(offered)
    ids = [f"e{number}" for number in used]
    assert (made.name == ".") == (not ids)
    assert all(name in made.name for name in ids)
    own = [
        config for config in list_first_configs(spec.search, 0) if config not in here
    ]
    new = [config for config in made.portfolio if config not in own]
    search = spec.search.build(0, objective=spec.objective, max_t=4)
    made.apply(search)
    suggested = [
        search.suggest(f"{number:05}") for number in range(len(own) + len(new))
    ]
    assert suggested[len(suggested) - len(new) :] == new


def write_otherwise(story, folder, *, metric, space, dataset):
    """The experiment of a story, with another objective, hyperparameters or images."""
    configs = CONFIGS[space]
    domains = dict.fromkeys(configs(0.1), "uniform(0.01, 1)")
    fields = spec_of(story)
    fields["objective"] |= {"metric": metric, "limits": [], "others": []}
    fields["search"] |= {"space": domains, "points_to_evaluate": []}
    training = {"model": "cnn", "dataset": dataset}
    writer = Writer(make_folder(folder, **fields, training=training))
    for number, trial in enumerate(story.trials):
        named = [{"f1": r["val_accuracy"], "ms": r["ms"]} for r in trial.reports]
        reports = trial.reports if metric == "val_accuracy" else named
        config = configs(config_of(story, number)["lr"])
        error = ("exception", "ValueError: no") if trial.status == "failed" else None
        writer.trial(number, reports, config=config, end=trial.status, error=error)
    writer.end()


@pytest.fixture(scope="module")
def models():
    """The checkpoints of four classifiers, of which the first three have begun alike."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    files = []
    for lr, seed in [(0.1, 1), (0.11, 1), (0.3, 1), (0.1, 2)]:
        learner = ImageClassifier({}, {**SHIPPED, "epochs": 4, "seed": seed, "lr": lr})
        learner.step()
        file = io.BytesIO()
        torch.save(learner.state_dict(), file)
        files.append(file.getvalue())
    torch.set_num_threads(threads)
    return files


@FEW
@given(story=STORIES, folds=st.sampled_from([None, 4]), top=st.integers(1, 4))
def test_soup_is_of_the_trials_that_a_plain_reading_finds(
    story, folds, top, models, tmp_path_factory
):
    place = tmp_path_factory.mktemp("soups")
    results = written(
        story,
        place / "x",
        trainable=IMAGE_CLASSIFIER,
        training={**SHIPPED, "folds": folds, "fold_epochs": 1} if folds else SHIPPED,
        scheduler={"name": "none", "max_t": 4},
        content=lambda number, epoch: models[number % len(models)],
    )
    leaders = [number for number, _, _ in story.ranked()][:top]
    if not leaders or not story.trials[leaders[0]].checkpoints:
        with pytest.raises(NoUsableTrialError):
            soup(results, top=top)
        return
    best = leaders[0]
    together = [
        number
        for number in leaders
        if story.trials[number].checkpoints
        and (not folds or story.checkpoint(number) == story.checkpoint(best))
    ]
    done = soup(results, place / "model", top=top)
    single, mixed, ensemble = done.candidates
    assert [int(trial) for trial in ensemble.trials] == together
    assert [int(trial) for trial in done.left_out] == [
        n for n in leaders if n not in together
    ]
    assert single.trials == mixed.trials[:1] == ensemble.trials[:1]
    assert set(mixed.trials) <= set(ensemble.trials)
    assert single.metrics.get("ms") == (
        story.trials[best].reports[story.checkpoint(best) - 1]["ms"]
        if any("ms" in limit for limit in story.limits)
        else None
    )
    allowed = [
        (story.sign * each.metrics["val_accuracy"], number)
        for number, each in enumerate(done.candidates)
        # 99: of what has no time of its own
        if story.allows({"ms": 99, **each.metrics})
    ]
    chosen = done.candidates[min(allowed)[1]] if allowed else single
    assert done.chosen is chosen
    config = read_document(place / "model/config.json")
    assert (int(config["trial_id"]), config["epoch"]) == (best, story.checkpoint(best))
    members = (config.get("combined") or {}).get("members", [])
    expected = [*chosen.trials] if chosen.kind != "single" else []
    assert [member["trial_id"] for member in members] == expected
