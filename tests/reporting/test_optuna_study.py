import optuna
import pytest
from optuna.trial import TrialState
from stories import ODD, odd, search
from synthetic import START

from tuner.errors import UsageError
from tuner.reporting.axes import build_axes
from tuner.reporting.optuna_study import build_distribution, build_study, write_study
from tuner.spec.space.parsing import parse_domain


def test_study_of_search_has_states_values_and_times(snapshot, tmp_path):
    study = build_study(search(tmp_path / "x", 6))
    assert (study.study_name, study.direction.name) == ("x", "MAXIMIZE")
    done, stopped, *_, failed, _ = study.trials
    for trial in (done, stopped, failed):
        fields = (
            trial.value,
            trial.params,
            trial.intermediate_values,
            trial.user_attrs,
        )
        snapshot.compare_value((trial.state.name, *fields, trial.distributions))
    assert done.datetime_start.timestamp() == START + 2
    assert done.duration.total_seconds() == 11


@pytest.mark.parametrize("kind", ODD)
def test_study_of_odd_experiments_is_complete(tmp_path, kind):
    results = odd(tmp_path / "x", kind)
    study = build_study(results)
    ids = [trial.user_attrs["trial_id"] for trial in study.trials]
    assert ids == list(results.trials)
    assert all(set(t.params) == set(t.distributions) for t in study.trials)


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        ("loguniform(0.1, 1)", [0.5]),
        ("loguniform(0.1, 1)", [5.0]),
        ("lograndint(1, 9)", [3]),
        ("quniform(0, 1, 0.25)", [0.5]),
        ("randn(0, 1)", [-3.0, 2.0]),
        ("choice([1, None])", [1]),
        ("choice([1, True])", [True]),
        ("uniform(0, 1)", ["x", 0.5]),
        (None, [1, 2]),
        (None, [*range(20)]),
    ],
)
def test_distributions_of_domains_hold_all_values(snapshot, domain, values):
    domains = {} if domain is None else {"x": parse_domain(domain)}
    axes = build_axes(domains, [{"x": value} for value in values])
    snapshot.compare_value(build_distribution(axes["x"]))


def test_write_study_twice_is_refused(snapshot, tmp_path):
    results = search(tmp_path / "x", 6)
    url = f"sqlite:///{tmp_path}/study.db"
    write_study(build_study(results), url)
    kept = optuna.load_study(study_name="x", storage=url)
    there = kept.trials
    here = build_study(results).trials
    assert [t.state for t in there] == [t.state for t in here]
    assert there[0].state == TrialState.COMPLETE
    assert [
        (t.value, t.params, t.user_attrs, t.intermediate_values) for t in there
    ] == [(t.value, t.params, t.user_attrs, t.intermediate_values) for t in here]
    assert kept.user_attrs == {"metric": "val_accuracy"}
    with snapshot.raises(UsageError):
        write_study(build_study(results), url)


def test_write_study_refuses_a_link_and_hides_a_password(snapshot, tmp_path):
    study = build_study(odd(tmp_path / "x", "one_trial"))
    with snapshot.raises(UsageError) as raised:
        write_study(study, "nothing://user:secret@host/x")
    assert "secret" not in str(raised.value)
    (tmp_path / "link.db").symlink_to("/dev/null")
    with snapshot.raises(UsageError):
        write_study(study, f"sqlite:///{tmp_path}/link.db")


def test_write_study_failure_leaves_nothing(snapshot, tmp_path, monkeypatch):
    study = build_study(search(tmp_path / "x", 3))
    url = f"sqlite:///{tmp_path}/study.db"

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(optuna.Study, "add_trials", fail)
        with snapshot.raises(UsageError):
            write_study(study, url)
    write_study(study, url)
    assert len(optuna.load_study(study_name="x", storage=url).trials) == 3
