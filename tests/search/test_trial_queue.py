"""The order of trials, Tune as their client, and the replay of a journal."""

from types import SimpleNamespace

import pytest
from ray.tune.search import Searcher
from searches import search_of

from tuner.experiment.steered import REQUESTED, Requested, Steered
from tuner.experiment.trials import TrialRecord
from tuner.search.replay import replay_trials
from tuner.search.trial_queue import TrialQueue
from tuner.search.tune_callbacks import TuneSearcher
from tuner.trial.context import Assignment


class Strategy(Searcher):
    """Keeps its calls; suggests nothing while it is `busy`, and `count` configs in all."""

    def __init__(self, count=None):
        super().__init__()
        self.busy = False
        self.count = count
        self.calls = []

    def suggest(self, trial_id):
        if self.count is not None and int(trial_id) >= self.count:
            return Searcher.FINISHED
        return None if self.busy else {"number": int(trial_id)}

    def on_trial_result(self, trial_id, result):
        self.calls.append(("result", trial_id, result))

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.calls.append(("complete", trial_id, result, error))


class Source(TuneSearcher):
    """A queue, as Tune asks it for trials."""

    def __init__(
        self,
        strategy,
        *,
        is_over=False,
        total=None,
        limit=9,
        taken=(),
        requested=(),
        tries=(),
        **more,
    ):
        origins = {i: REQUESTED if i in requested else "random" for i in taken}
        trials = {
            i: TrialRecord(i, 0.0, origin=origin) for i, origin in origins.items()
        }
        history = SimpleNamespace(trials=trials, steered=Steered(tries=list(tries)))
        self.queue = TrialQueue(
            strategy, history, total=total, limit=lambda: limit, **more
        )
        steering = SimpleNamespace(answer_requests=lambda: None)
        super().__init__(
            SimpleNamespace(
                queue=self.queue, steering=steering, is_over=lambda: is_over
            )
        )

    def ids(self, names):
        """The trial ids of suggestions under these ids of Ray's; None where there is none."""
        return [trial and trial["trial_id"] for trial in map(self.suggest, names)]


def test_trials_draw_seeds_of_their_own_from_that_of_the_experiment():
    def seeds(seed):
        tries = [Requested({"number": 9})]
        queue = Source(Strategy(), seed=seed, tries=tries).queue
        return [queue.pop_next().seed for _ in range(3)]

    assert seeds(1) == seeds(1)
    assert len({*seeds(1), *seeds(2)}) == 6
    assert all(0 <= seed < 2**32 for seed in seeds(1))
    assert seeds(None) == [None] * 3


def test_suggest_begins_with_unfinished_trials_and_skips_taken_numbers():
    unfinished = [Assignment("00001", {"number": 1}, epoch=4)]
    source = Source(
        Strategy(), total=4, taken=["00000", "00001", "00003"], unfinished=unfinished
    )
    first = source.suggest("a")
    assert (first["trial_id"], first["epoch"]) == ("00001", 4)
    assert source.ids("bc") == ["00002", None]


def test_strategy_learns_of_a_failure_only_when_it_is_final():
    strategy = Strategy()
    source = Source(strategy, total=2)
    source.ids("ab")
    source.on_trial_complete("a", {"tuner/failure/kind": "nan"})
    assert source.suggest("c") is None  # b is live: it may have to be tried again
    source.on_trial_complete("b", error=True)
    assert strategy.calls == []
    source.queue.report_failure("00000", "nan")
    source.queue.retry(Assignment("00001", {"number": 1}, epoch=3))
    assert strategy.calls == [("complete", "00000", None, True)]
    assert source.suggest("c")["epoch"] == 3
    source.on_trial_complete("c", {"loss": 1.0})
    assert strategy.calls[1:] == [("complete", "00001", {"loss": 1.0}, False)]
    assert source.suggest("d") == Searcher.FINISHED


def test_suggest_after_the_last_config_waits_for_live_trials():
    source = Source(Strategy(count=2))
    assert source.ids("abc") == ["00000", "00001", None]
    source.on_trial_complete("a", {"loss": 1.0})
    source.on_trial_complete("b", error=True)
    source.queue.retry(Assignment("00001", {}, epoch=1))
    assert source.suggest("c")["epoch"] == 1
    source.on_trial_complete("c", {"loss": 1.0})
    assert source.suggest("d") == Searcher.FINISHED


def test_assignments_have_the_origin_and_seed_of_their_strategy():
    class Telling(Strategy):
        def origin(self, trial_id):
            return f"origin of {trial_id}"

        def seed_of(self, trial_id):
            return 7

    for strategy, expected in (
        (Telling(), ("origin of 00000", 7)),
        (Strategy(), (None, None)),
    ):
        assignment = Source(strategy).suggest("a")
        assert (assignment["origin"], assignment["seed"]) == expected


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_strategy_learns_from_a_trial_that_goes_on_after_its_end(status):
    config = {"lr": 0.1}
    trial = {"trial_id": "00000"}
    start = {"event": "trial_started", **trial, "config": config}
    reports = [
        {"event": "result", **trial, "epoch": epoch, "metrics": {"loss": 0.5}}
        for epoch in (1, 2, 3)
    ]
    end = {"event": "trial_ended", **trial, "status": status}
    if status == "failed":
        end["error"] = {"kind": "nan", "message": "m"}
    events = [start, *reports[:2], end]
    live, replayed = (search_of("bohb", {"lr": "uniform(0, 1)"}) for _ in range(2))
    replay_trials(live, events)
    assert live.trials["00000"].status != "running"
    unfinished = [Assignment("00000", config, epoch=2)]
    source = Source(live, taken=["00000"], unfinished=unfinished)
    source.suggest("a")
    source.on_trial_result("a", {"loss": 0.5, "training_iteration": 3})
    replay_trials(replayed, [*events, start, reports[2]])
    assert replayed.trials == live.trials
    trial = live.trials["00000"]
    assert (trial.status, list(trial.reports)) == ("running", [1, 2, 3])


def test_strategy_gets_requested_configs_only_if_it_takes_them():
    class Taking(Strategy):
        def take_trial(self, trial_id, config):
            self.calls.append(("take", trial_id, config))

    for strategy, calls in ((Strategy(), 0), (Taking(), 3)):
        source = Source(strategy, total=1, tries=[Requested({"lr": 1})])
        requested = source.suggest("a")
        expected = {"trial_id": "00000", "config": {"lr": 1}, "origin": "asked"}
        assert expected.items() <= requested.items()
        source.on_trial_result("a", {"loss": 1.0})
        source.on_trial_complete("a", {"loss": 1.0})
        assert len(strategy.calls) == calls
        assert source.ids("b") == ["00001"]


def test_requested_config_leaves_unused_lower_numbers_to_the_strategy():
    tries = [Requested({})]
    source = Source(Strategy(), total=4, taken=["00000", "00002"], tries=tries)
    assert source.ids("abcd") == ["00003", "00001", "00004", None]


def test_requested_configs_of_an_earlier_version_get_free_numbers():
    tries = [Requested({}), Requested({}), Requested({}, "00007")]
    taken = [f"{number:05}" for number in range(7)]
    source = Source(Strategy(), taken=taken, requested=["00006"], tries=tries)
    assert source.ids("abc") == ["00008", "00007", "00009"]
