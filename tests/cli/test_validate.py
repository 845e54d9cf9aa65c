"""tuner validate: the spec and its plan, or every fault of it, and nothing started."""

import json

import pytest
from commands import GOOD, call, text_of, tuner
from fresh import ran
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import SpecError, TunerError


def test_validate_shows_plan_and_spec_and_starts_nothing(here):
    code = "from tuner.cli.main import cli; cli.main(['validate', 'digits'], standalone_mode=False)"
    done = ran(code)
    assert done.stdout.startswith("digits would run\n")
    assert not done.modules & {"ray", "torch", "pandas"}
    assert not list(here.iterdir())


def test_validate_and_dry_run_as_json(here):
    shown = json.loads(call("validate", "digits", "--json").stdout)
    assert shown["spec"]["name"] == "digits"
    assert shown["trials"] == shown["spec"]["num_samples"]
    assert shown["a_trial_reserves"] == {"cpus": 1, "gpus": 0}
    assert json.loads(call("run", "digits", "--dry-run", "--json").stdout) == shown
    assert not list(here.iterdir())


def test_the_networks_are_summed_up_on_request():
    assert "networks" not in json.loads(call("validate", "digits", "--json").stdout)
    done = call("validate", "digits", "--json", "--summary", "training.freeze=head")
    [network] = json.loads(done.stdout)["networks"]
    assert network["model"] == "cnn"
    assert network["stages"][0]["output"] == [network["settings"]["width"], 8, 8]
    assert network["trainable"] == network["parameters"] - network["stages"][-1]["parameters"]
    text = call("validate", "digits", "--summary").stdout
    assert f"{network['parameters']:,} parameters, " in text
    with pytest.raises(SpecError, match="freeze: matches no parameter, got 'tail'"):
        raise call("validate", "digits", "--summary", "training.freeze=tail").exception


def test_flags_and_assignments_set_the_spec():
    arguments = ["--num-samples", "3", "--max-concurrent", "2", "--time-budget", "10m", "--seed"]
    arguments += ["7", "--cpus", "0.5", "--name", "mine", "--storage", "elsewhere"]
    arguments += ["search.space.lr=uniform(0.1, 0.2)", "scheduler.max_t=3", "training.width=8"]
    done = call("validate", "digits", "--json", *arguments)
    spec = json.loads(done.stdout)["spec"]
    names = ("num_samples", "max_concurrent", "time_budget_s", "seed", "name", "storage")
    assert [spec[name] for name in names] == [3, 2, 600, 7, "mine", "elsewhere"]
    assert spec["resources"]["cpus"] == 0.5
    assert spec["search"]["space"]["lr"] == "uniform(0.1, 0.2)"
    assert (spec["scheduler"]["max_t"], spec["training"]["width"]) == (3, 8)


def test_another_search_over_the_same_space():
    spec = json.loads(call("validate", "digits", "--search", "grid", "--json").stdout)
    assert spec["spec"]["search"]["strategy"] == "grid"
    assert spec["trials"] == 3 * 3 * 3 * 4
    fewer = call("validate", "digits", "--search", "grid", "--num-samples", "5", "--json")
    assert json.loads(fewer.stdout)["trials"] == 5


def test_the_next_free_name_is_taken(digits):
    assert json.loads(call("validate", "digits", "--json").stdout)["spec"]["name"] == "digits-2"


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_name_that_exists_is_exit_code_2_and_points_to_resume(digits, command):
    for named in (["--name", "digits"], ["name=digits"]):
        done = tuner(command, "digits", *named)
        assert (done.returncode, done.stdout) == (2, "")
        assert "tuner resume digits" in done.stderr


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00", "{]"])
def test_a_file_that_is_no_mapping_is_refused(here, text):
    (here / "bad.yaml").write_text(text)
    done = tuner("validate", "bad.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "bad.yaml has 1 fault" in done.stderr


def test_an_assignment_without_a_value_is_told():
    assert "foo: must be KEY=VALUE, as in scheduler.max_t=30" in str(
        call("validate", "digits", "foo").exception
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


KEYS = ("name", "storage", "search", "scheduler", "resources", "objective", "training", "seed")


@given(st.sampled_from(KEYS), anything)
def test_whatever_a_file_says_is_accepted_or_refused_in_words(key, value):
    text_of("any.json", {**GOOD, key: value})
    for flags in ([], ["--search", "grid"], ["--num-samples", "2"]):
        done = call("validate", "any.json", *flags)
        assert done.exception is None or isinstance(done.exception, TunerError)
