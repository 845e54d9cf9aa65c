"""Settings of earlier versions: their experiments are shown, and do not go on."""

import pytest
from synthetic import Writer, make_folder

from tuner.errors import SpecError
from tuner.experiment.results.results import Results
from tuner.search.run import resume_experiment
from tuner.spec.code import IMAGE_CLASSIFIER as CLASSIFIER
from tuner.spec.experiment import build_spec
from tuner.spec.retired import find_retired

FORECAST = {"name": "forecast", "max_t": 10, "peers": 3, "cost": "seconds"}
SPEC = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 1}
RETIRED = {
    "scheduler.name": {"scheduler": FORECAST},
    "training.model": {"training": {"model": "speednet"}},
    "training.dtype": {"training": {"dtype": "bfloat16"}},
    "training.lookahead_steps": {"training": {"lookahead_steps": 5}},
    "search.space.decoupled": {
        "search": {"space": {"decoupled": "choice([True, False])"}}
    },
}


@pytest.mark.parametrize("key", RETIRED)
def test_experiment_with_a_retired_setting_is_shown_and_not_resumed(tmp_path, key):
    folder = make_folder(tmp_path / "old", trainable=CLASSIFIER, **RETIRED[key])
    writer = Writer(folder)
    writer.trial(0, [0.5, 0.4])
    writer.kill()
    results = Results(folder)
    assert results.describe_best()["trial_id"] == "00000"
    assert results.spec.num_samples
    before = (folder / "journal.jsonl").read_bytes()
    with pytest.raises(SpecError) as refused:
        resume_experiment(folder)
    assert [fault.key for fault in refused.value.faults] == [key]
    assert (folder / "journal.jsonl").read_bytes() == before


def test_present_settings_are_not_retired():
    training = {"model": "cnn", "dtype": "float64", "ema_decay": 0.99}
    spec = build_spec({**SPEC, "training": training}).model_dump(mode="json")
    assert list(find_retired(spec)) == []


def test_learners_of_users_may_have_settings_of_these_names():
    spec = {**SPEC, "trainable": "mine:Learner", "training": {"dtype": "bfloat16"}}
    assert list(find_retired(spec)) == []


@pytest.mark.parametrize("name", ["forecast", "forecst"])
def test_new_spec_with_a_retired_scheduler_is_refused_as_an_unknown_one(name):
    with pytest.raises(SpecError) as refused:
        build_spec({**SPEC, "scheduler": {"name": name}})
    assert [fault.key for fault in refused.value.faults] == ["scheduler"]
    assert "asha" in refused.value.faults[0].choices


def test_recorded_command_is_no_target_of_a_resume(tmp_path):
    folder = make_folder(tmp_path / "old", notify=["exec:mail me"])
    Writer(folder).kill()
    assert Results(folder).spec.notify == ("exec:mail me",)
    with pytest.raises(SpecError):
        build_spec({**SPEC, "notify": ["exec:mail me"]})
