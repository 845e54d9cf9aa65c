"""What a resume adds to an experiment, and when nothing is left to do."""

import json
from pathlib import Path

import pytest
from synthetic import Writer, change_document, read_document

from tuner.errors import UsageError
from tuner.experiment.folder import ExperimentFolder
from tuner.reporting.commands import explain_completion
from tuner.search.extension import Extension, load_if_finished, resolve_trainable
from tuner.spec.experiment import parse_trainable
from tuner.spec.sections import Objective

OBJECTIVE = Objective(metric="val_accuracy", mode="max")
LONGER = Extension(changes={"scheduler.max_t": 4})


def lengthened(folder, **scheduler):
    """Change an experiment whose trials had 2 epochs to one of 4, as a resume does."""
    path = folder / "experiment.json"
    document = read_document(path)
    document["spec"]["scheduler"] |= {"max_t": 2, **scheduler}
    document = LONGER.apply(document, ExperimentFolder(folder))
    path.write_text(json.dumps(document))


def test_trainable_of_takes_the_recorded_or_an_equal_trainable(snapshot):
    folder = Path("results/e")
    assert resolve_trainable("json:dumps", None, folder) == "json:dumps"
    assert resolve_trainable("json:dumps", json.dumps, folder) == "json:dumps"
    passed = parse_trainable(lambda config: None)
    by_value = "__main__:<lambda> (by value)"
    assert resolve_trainable(by_value, passed, folder) == passed
    for recorded, trainable in (("json:dumps", "json:loads"), (by_value, "json:loads")):
        with snapshot.raises(UsageError):
            resolve_trainable(recorded, trainable, folder)
    with snapshot.raises(UsageError):
        resolve_trainable(by_value, None, folder)


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ({}, {}),
        ({"add_samples": 3}, {"num_samples": 7}),
        ({"add_samples": 3, "changes": {"num_samples": 5}}, {"num_samples": 8}),
        ({"time_budget_s": 9.0}, {"time_budget_s": 9.0}),
        ({"changes": {"stop.target": 0.5}}, {"stop": {"target": 0.5}}),
        ({"notify": ("https://x",)}, {"notify": ["https://x"]}),
    ],
)
def test_extension_changes_only_its_keys(files, more, changes):
    document = files.read_document()
    spec = Extension(**more).apply(document, files)["spec"]
    assert spec == document["spec"] | changes


def test_extension_adds_samples_to_those_that_have_begun(snapshot, writer, files):
    for number in range(6):  # of four: more had begun before a control made them fewer
        writer.trial(number, [0.1])
    writer.add("trial_started", trial_id="00006", config={}, origin="asked")
    writer.add("trial_ended", trial_id="00006", status="interrupted")
    writer.add("trial_started", trial_id="00006", config={})
    writer.kill()
    document = files.read_document()
    extension = Extension(add_samples=3)
    assert extension.apply(document, files)["spec"]["num_samples"] == 9
    document["spec"]["num_samples"] = None
    with snapshot.raises(UsageError):
        extension.apply(document, files)


@pytest.mark.parametrize(
    ("more", "is_over"),
    [
        (Extension(), True),
        (Extension(add_samples=1), False),
        (Extension(time_budget_s=9.0), False),
        (Extension(retry_failed=True), False),
    ],
)
def test_finished_of_a_completed_search_depends_on_its_extension(writer, more, is_over):
    writer.trial(0, [0.1])
    writer.trial(1, error=("oom", "m"))
    writer.end()
    assert (load_if_finished(writer.folder, more) is not None) == is_over


@pytest.mark.parametrize(
    "end",
    [
        None,
        {"status": "interrupted"},
        {"status": "failed"},
        {"status": "completed", "reason": "time_budget", "never_started": 2},
    ],
)
def test_finished_of_a_search_that_was_cut_short_is_none(writer, end):
    writer.trial(0, [0.1])
    if end:
        writer.add("experiment_ended", **end)
    writer.kill()
    assert load_if_finished(writer.folder, Extension()) is None


def test_finished_after_a_change_before_a_kill_is_none_until_trials_are_longer(writer):
    trial_id = writer.trial(0, [0.1, 0.2], end=None)
    writer.checkpoint(trial_id, 2)
    writer.add("trial_ended", trial_id=trial_id, status="completed")
    writer.end()
    lengthened(writer.folder)
    for more in (Extension(), LONGER):
        assert load_if_finished(writer.folder, more) is None
    again = Writer(writer.folder, resumed=True)
    again.trial(0, [0.3, 0.4], first=3)
    again.end()
    for more in (Extension(), LONGER):
        assert load_if_finished(writer.folder, more).trials[trial_id].last_epoch == 4


@pytest.mark.parametrize(
    ("reason", "end", "over", "left"),
    [
        (
            "target",
            "completed",
            [{"add_samples": 1}, {"changes": {"stop.target": 0.45}}],
            [{"changes": {"stop.target": 0.6}}, {"changes": {"stop.target": None}}],
        ),
        (
            "utility",
            "interrupted",
            [],
            [{"changes": {"stop.utility": 0.3}}, {"retry_failed": True}],
        ),
    ],
)
def test_finished_of_a_search_that_its_rule_ended_is_none_only_under_changes(
    snapshot, writer, reason, end, over, left
):
    writer.trial(0, [0.5], end=end)
    writer.add("experiment_ended", status="completed", reason=reason)
    writer.kill()
    path = writer.folder / "experiment.json"
    change_document(path, spec=read_document(path)["spec"] | {"stop": {reason: 0.4}})
    for more in ({}, *over):
        assert load_if_finished(writer.folder, Extension(**more)) is not None
    for more in left:
        assert load_if_finished(writer.folder, Extension(**more)) is None
    snapshot(explain_completion(load_if_finished(writer.folder, Extension())))
