"""The commands refit and soup; integration/ trains."""

import json

from commands import A_FUNCTION, call
from confirmed import FOUND, searched
from handed import CONFIG, trained
from synthetic import Writer

from tuner.errors import UsageError
from tuner.experiment.folder import ExperimentFolder
from tuner.search.refit import refitting_spec
from tuner.search.run import describe
from tuner.spec.validation import validate


def test_refit_shows_a_finished_refit(here):
    results = trained(here / "results" / "hand")
    spec = validate(refitting_spec(results))
    ExperimentFolder(spec.folder).create(describe(spec))
    writer = Writer(spec.folder)
    writer.trial(0, [{"epochs_trained": 1, "train_loss": 0.5}], config=CONFIG)
    writer.end()
    shown = json.loads(call("refit", "hand", "--no-evaluate", "--json").stdout)
    assert (shown["name"], shown["status"]) == ("hand-refit", "completed")
    assert shown["best"]["metrics"] == {"epochs_trained": 1, "train_loss": 0.5}
    text = call("refit", "hand", "--no-evaluate").stdout
    assert "refit of trial 00000 of hand, which had val_accuracy" in text


def test_refit_and_soup_of_a_function_are_refused(here):
    searched(here / "results" / "digits", FOUND, trainable=A_FUNCTION, training={})
    for command, message in [
        ("refit", "declares no refit, so it cannot train on training and validation data"),
        ("soup", "only models of the image classifier that ships can be combined"),
    ]:
        error = call(command, "digits", "--trust").exception
        assert isinstance(error, UsageError)
        assert message in str(error)


def test_soup_shows_a_table_and_exports_what_it_chooses(here):
    configs = [CONFIG, {**CONFIG, "lr": 0.2}]
    trained(here / "results" / "hand", configs=configs, spec={"metric": "val_loss", "mode": "min"})
    shown = json.loads(call("soup", "hand", "--top", "2", "--to", "out", "--json").stdout)
    assert [model["model"] for model in shown["models"]] == ["single", "soup", "ensemble"]
    best = min(shown["models"], key=lambda model: model["metrics"]["val_loss"])
    assert (shown["chosen"], shown["export"]) == (best["model"], "out")
    measured = json.loads(call("evaluate", "out", "--json").stdout)
    assert measured["trial_id"] == best["trials"][0]
    text = call("soup", "hand", "--top", "2").stdout
    assert text.startswith("hand, calibrated, on the validation split\n\nMODEL     VAL_LOSS")
    assert text.endswith(f"\nchosen: {best['model']}\n")
