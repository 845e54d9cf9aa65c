"""The stages of a playbook, by the experiments in a storage; integration/ runs one."""

import pytest
from confirmed import SPACE, retrained, searched

from tuner.errors import NoUsableTrialError, UsageError
from tuner.experiment.results.results import Results
from tuner.reporting.advice.finding import Finding
from tuner.search.playbook import changes_of, stages_of
from tuner.spec.experiment import build_spec


@pytest.fixture
def spec_of(tmp_path):
    """The spec of a command line of 100 trials; `fields` replaces its own."""
    common = {"name": "x-1-explore", "trainable": "noisy:function", "num_samples": 100}
    common |= {"storage": str(tmp_path), "search": {"space": SPACE}, "scheduler": {"max_t": 8}}
    goal = {"metric": "val_accuracy", "mode": "max"}
    return lambda **fields: build_spec({**common, "objective": goal, **fields})


def ran(spec, name, trials=6, best=0.9, **fields):
    """The trials of a stage: the higher lr is, the better, but for the last one, which failed."""
    shares = [(number + 0.5) / (trials - 1) for number in range(trials - 1)]
    values = {10 ** (3 * share - 3): best * share for share in shares}
    return searched(spec.folder.with_name(name), values, **fields)


def test_explore_is_half_of_the_budget_at_random(spec_of):
    search = {"strategy": "bayesopt", "space": SPACE, "forbid": ["lr > 0.5"], "startup": 3}
    [stage] = stages_of(spec_of(search=search, time_budget_s=60))
    assert (stage.name, stage.status, stage.spec.name) == ("x-1-explore", "planned", stage.name)
    assert (stage.spec.search.strategy, stage.spec.search.forbid) == ("random", ("lr > 0.5",))
    assert (stage.spec.num_samples, stage.spec.time_budget_s) == (50, 30)


REFUSED = [
    ({}, "x-1-explore has no usable trial"),
    ({"num_samples": 11}, "needs --num-samples 12 or more, or --time-budget"),
    ({"objective": {"metric": "a", "others": [{"metric": "b"}]}}, "a single objective"),
]


@pytest.mark.parametrize(("fields", "error"), REFUSED)
def test_chain_that_cannot_go_on_is_refused(spec_of, fields, error):
    ran(spec_of(), "x-1-explore", trials=1)
    with pytest.raises((UsageError, NoUsableTrialError), match=error):
        list(stages_of(spec_of(**fields)))


def test_narrow_samples_the_space_that_findings_suggest(spec_of):
    ran(spec_of(), "x-1-explore", trials=60)
    _, narrow = stages_of(spec_of())
    spec, domain = narrow.spec, "loguniform(0.001, 32.0)"
    assert narrow.reason.startswith("15 of the best 15 trials have lr in the upper 50 %")
    assert f"Now search.space.lr={domain}." in narrow.reason
    assert (spec.name, spec.search.strategy, spec.num_samples) == ("x-2-narrow", "random", 12)
    assert (str(spec.search.space["lr"]), spec.seed, spec.warm_start) == (domain, 1, "x-1-explore")


EDGE, WASTED = (("edge", "search.space.lr=uniform(0, 2)"), ("wasted", "search.space.lr=3"))


@pytest.mark.parametrize(
    ("findings", "changes"),
    [
        ([EDGE, WASTED], {"search.space.lr": "uniform(0, 2)"}),
        ([("diverged", "search.forbid=['lr > 0.5']")], {"search.forbid": ["lr > 0.5"]}),
        ([("max_t_long", "scheduler.max_t=2")], {}),  # below the grace period
        ([("useless", "search.space.lr=0.1")], {}),
    ],
)
def test_changes_of_findings(spec_of, findings, changes):
    spec = spec_of(scheduler={"max_t": 8, "grace_period": 3})
    found = [Finding(k, "high", "Seen.", "", f'tuner run --like x "{s}"', {}) for k, s in findings]
    reason, made = changes_of(spec, found)
    assert (made, reason.count("Seen.")) == (changes, len(changes))


def test_exploit_learns_from_both_and_spends_what_is_left(spec_of):
    search = {"strategy": "hyperopt", "space": SPACE, "startup": 3}
    command = spec_of(search=search, time_budget_s=10_000, warm_start="y", max_concurrent=2)
    ran(command, "x-1-explore", trials=50)
    wide = {"strategy": "random", "space": {"lr": "uniform(0, 9)"}}
    ran(command, "x-2-narrow", trials=1, scheduler={"max_t": 20}, search=wide)  # which failed
    *_, exploit = stages_of(command)
    spec = exploit.spec
    assert (spec.search.strategy, spec.search.startup) == ("hyperopt", 3)
    assert (str(spec.search.space["lr"]), spec.scheduler.max_t) == ("uniform(0, 9)", 20)
    assert spec.warm_start == ("x-2-narrow", "x-1-explore", "y")
    assert (spec.num_samples, spec.max_concurrent) == (100 - 50 - 1 - 9, 2)
    spent = sum(Results(f).history.duration_s for f in command.folder.parent.iterdir())
    assert spec.time_budget_s == 10_000 * 7 / 8 - spent


FEW = {"search": {"strategy": "random", "space": {"lr": "choice([0.01, 0.9])"}}}


@pytest.mark.parametrize(
    ("fields", "reason"), [({"num_samples": 12}, "nothing is left"), (FEW, "all 2 configs")]
)
def test_exploit_is_skipped_with_nothing_to_try(spec_of, fields, reason):
    ran(spec_of(), "x-1-explore", trials=12, **fields)
    _, narrow, exploit, confirm = stages_of(spec_of(**fields))
    assert "12 trials say too little about where good values lie" in narrow.reason
    assert exploit.reason.startswith(reason)
    assert [s.status for s in (narrow, exploit, confirm)] == ["skipped", "skipped", "planned"]


@pytest.mark.parametrize(("count", "side"), [(100, 3), (24, 2)])
def test_confirm_retrains_leaders_of_the_best_search(spec_of, count, side):
    command = spec_of(num_samples=count)
    explored = ran(command, "x-1-explore")
    ran(command, "x-3-exploit", best=0.8)
    *_, confirm = stages_of(command)
    assert (confirm.name, confirm.status) == ("x-1-explore-confirm", "planned")
    assert (confirm.spec.trials, confirm.confirms.name) == (side**2, "x-1-explore")
    for end, status in ((None, "interrupted"), ("completed", "completed")):
        results = retrained(explored, [[0.7, 0.8], [0.6, 0.7]], end=end)
        *_, confirm = stages_of(command)
        assert (confirm.name, confirm.status) == (results.name, status)
