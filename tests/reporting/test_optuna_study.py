import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from stories import ODD, odd, search
from synthetic import START

from tuner.errors import UsageError
from tuner.reporting.axes import build_axes, flatten_config
from tuner.reporting.optuna_study import build_distribution, build_study, write_study
from tuner.spec.space.parsing import parse_domain


def test_study_of_search_has_states_values_and_times(tmp_path):
    study = build_study(search(tmp_path / "x", 6))
    done, stopped, failed = (study.trials[n] for n in (0, 1, 4))
    assert (study.study_name, study.direction.name) == ("x", "MAXIMIZE")
    assert [t.state.name for t in (done, stopped, failed)] == ["COMPLETE", "PRUNED", "FAIL"]
    assert done.value == max(done.intermediate_values.values())
    assert list(done.intermediate_values) == list(range(1, 11))
    assert stopped.value == stopped.intermediate_values[1]
    assert failed.user_attrs == {"trial_id": "00004", "status": "failed", "error": "oom"}
    assert done.datetime_start.timestamp() == START + 2
    assert done.duration.total_seconds() == 11
    assert done.distributions == {
        "lr": FloatDistribution(0.001, 1, log=True),
        "momentum": FloatDistribution(0, 1),
        "width": CategoricalDistribution([16, 32]),
    }


@pytest.mark.parametrize("kind", ODD)
def test_study_of_odd_experiments_is_complete(tmp_path, kind):
    results = odd(tmp_path / "x", kind)
    study = build_study(results)
    ids = [trial.user_attrs["trial_id"] for trial in study.trials]
    assert ids == list(results.trials)
    assert all(set(t.params) == set(t.distributions) for t in study.trials)


@pytest.mark.parametrize(
    ("domain", "values", "expected"),
    [
        ("loguniform(0.1, 1)", [0.5], FloatDistribution(0.1, 1, log=True)),
        ("loguniform(0.1, 1)", [5.0], FloatDistribution(0.1, 5, log=True)),
        ("lograndint(1, 9)", [3], IntDistribution(1, 8, log=True)),
        ("quniform(0, 1, 0.25)", [0.5], FloatDistribution(0, 1)),
        ("randn(0, 1)", [-3.0, 2.0], FloatDistribution(-3, 2)),
        ("choice([1, None])", [1], CategoricalDistribution([1, None])),
        ("choice([1, True])", [True], CategoricalDistribution(["1", "True"])),
        ("uniform(0, 1)", ["x", 0.5], CategoricalDistribution(["x", 0.5])),
        (None, [1, 2], CategoricalDistribution([1, 2])),
        (None, [*range(20)], IntDistribution(0, 19)),
    ],
)
def test_distributions_of_domains_hold_all_values(domain, values, expected):
    domains = {} if domain is None else {"x": parse_domain(domain)}
    axes = build_axes(domains, [{"x": value} for value in values])
    assert build_distribution(axes["x"]) == expected


@given(
    values=st.lists(
        st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=2),
        min_size=1,
    ),
    domain=st.sampled_from([None, "loguniform(0.1, 1)", "lograndint(1, 9)", "choice([1, 'a'])"]),
)
def test_distributions_of_any_configs_contain_their_values(values, domain):
    domains = {} if domain is None else {"x": parse_domain(domain)}
    configs = [flatten_config({"x": value}) for value in values]
    axes = build_axes(domains, configs)
    for config in configs if axes else ():
        params = {"x": axes["x"].find_category(config["x"])}
        distributions = {"x": build_distribution(axes["x"])}
        optuna.trial.create_trial(
            params=params, distributions=distributions, value=0
        )  # refuses others


def test_write_study_twice_is_refused(snapshot, tmp_path):
    results = search(tmp_path / "x", 6)
    url = f"sqlite:///{tmp_path}/study.db"
    write_study(build_study(results), url)
    kept = optuna.load_study(study_name="x", storage=url)
    there = kept.trials
    here = build_study(results).trials
    assert [t.state for t in there] == [t.state for t in here]
    assert there[0].state == TrialState.COMPLETE
    assert [(t.value, t.params, t.user_attrs, t.intermediate_values) for t in there] == [
        (t.value, t.params, t.user_attrs, t.intermediate_values) for t in here
    ]
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
