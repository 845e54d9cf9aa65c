"""A resume with a change goes on as a resume without one does, whatever kills it."""

import shutil

import driven
import pytest
from gated import assert_sound, at_the_gate, open_gate, spec, story, wait_for

from tuner.experiment.events import RESULT, TRIAL_ENDED
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.experiment import build_spec

LONGER = {"scheduler.max_t": 4}


@pytest.fixture
def short(tmp_path, ray_here):
    """The folder of a search whose trials last 2 epochs, and a copy of it."""
    open_gate(tmp_path)
    scheduler = {"max_t": 2, "grace_period": 1, "reduction_factor": 2}
    fields = spec(tmp_path, scheduler=scheduler, num_samples=4, max_concurrent=1)
    folder = run_experiment(build_spec(fields)).folder
    return folder, shutil.copytree(folder, tmp_path / "copies" / "gated")


@pytest.mark.slow
def test_longer_trials_go_on_after_a_kill_as_if_there_had_been_none(short, tmp_path):
    folder, copy = short
    completed = {t.trial_id for t in Results(folder).trials.values() if t.status == "completed"}
    assert 1 < len(completed) < 4
    whole = resume_experiment(copy, changes=LONGER)
    (tmp_path / "open").unlink()
    (tmp_path / "steps").write_text("." * 5)  # so that the second step from here waits at the gate
    process = driven.start("resume", folder, "scheduler.max_t=4", "--trust", cwd=tmp_path)
    wait_for(at_the_gate(tmp_path), process)
    process.kill()
    process.wait()
    assert {t.last_epoch for t in Results(folder).trials.values()} >= {1, 2, 3}

    open_gate(tmp_path)
    resumed = resume_experiment(folder)
    assert_sound(folder, trials=4)
    assert story(folder) == story(whole.folder)
    assert resumed.spec.epochs == whole.spec.epochs == 4
    assert max(trial.last_epoch for trial in resumed.trials.values()) == 4
    events = list(read(folder))
    before = next(n for n, e in enumerate(events) if e["event"] == "experiment_ended")
    after = {e["trial_id"] for e in events[before:] if e["event"] in (RESULT, TRIAL_ENDED)}
    assert after == completed  # those that were stopped stay so
    assert resume_experiment(folder).history.resumed == 2  # nothing is left: no driver has begun
