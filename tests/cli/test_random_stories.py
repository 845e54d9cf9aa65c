"""What commands say of random searches equals a plain reading of what the trials have reported."""

import json
from math import isclose

from hypothesis import given
from random_stories import DEFAULT, STORIES, said, written


@given(story=STORIES)
def test_answers_about_random_searches_equal_a_plain_reading(story, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories") / "x"
    results = written(story, folder)
    best = story.best()
    has_best, output = said("best", folder, "--json")
    shown = json.loads(said("show", folder, "--json")[1])
    for command in (
        ("show",),
        ("trials",),
        ("advise",),
        ("report", "--format", "json"),
    ):
        assert said(command[0], folder, *command[1:])[0]
    if best is None:
        assert (has_best, shown["best"]) == (False, None)
        return
    number, epoch, value = best
    named = json.loads(output)
    assert (named["trial_id"], named["epoch"]) == (f"{number:05}", epoch)
    assert isclose(named["metrics"]["val_accuracy"], value)
    assert shown["best"]["trial_id"] == named["trial_id"]
    front = [int(entry["trial_id"]) for entry in named.get("front", ())]
    assert front == (story.front() if story.others else [])
    assert results.get_best_trial().trial_id == named["trial_id"]
    usable = [
        n
        for n, trial in enumerate(story.trials)
        if trial.status != "failed"
        and any(story.counts(e, report) for e, report in enumerate(trial.reports, 1))
    ]
    assert {trial.trial_id for trial in results.top()} == {f"{n:05}" for n in usable}
    table = results.dataframe()
    counted = (
        table.loc[~table["best/val_accuracy"].isna(), "trial_id"] if len(table) else []
    )
    assert {f"{n:05}" for n in usable} <= {*counted}
    for n, trial in enumerate(story.trials):
        if trial.checkpoints:
            record = results.best_checkpoint(results.trial(str(n)))
            assert record.epoch == story.checkpoint(n)
    accuracy = results.compute_accuracy(results.describe_best())
    default = accuracy and accuracy.default
    is_compared = story.has_default and 0 in usable
    is_compared = is_compared and results.get_best_trial().config != DEFAULT
    assert (default is not None) == is_compared
