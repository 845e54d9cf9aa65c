"""Suggestions computed ahead of time: no call waits, and one slot gives the same sequence."""

import json
import subprocess
import sys
import threading
import time

import pytest
from ray.tune.search import Searcher

from tuner.search.searchers._background import BackgroundSearch
from tuner.search.searchers._learning import LearningSearch
from tuner.search.searchers.bohb import BOHB
from tuner.testing.searcher_contract import FINITE, SPACE, loss_of, play


def plain(space=SPACE, search=LearningSearch):
    return search(BOHB(random_share=0.05, candidates=64), space, "loss", "min", seed=1)


def ahead(slots=1, **settings):
    return BackgroundSearch(plain(**settings), slots=slots)


def wait(search, trial_id):
    """The suggestion, once there is one."""
    for _ in range(1000):
        if (config := search.suggest(trial_id)) is not None:
            return config
        time.sleep(0.003)
    raise AssertionError("no suggestion in 3 s")


class Patient(BackgroundSearch):
    """Asks again until there is a suggestion, as the driver does."""

    def suggest(self, trial_id):
        return wait(super(), trial_id)


class Counted(LearningSearch):
    """Keeps the names of the trials that it has suggested a config for."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.suggested = []

    def suggest(self, trial_id):
        self.suggested.append(trial_id)
        return super().suggest(trial_id)


def suggested(search):
    """How many suggestions have been computed, once all that are to be kept ready are."""
    search.settle()
    return len(search.search.suggested)


def test_background_with_one_slot_suggests_the_sequence_of_its_search():
    patient = Patient(plain())
    assert play(patient, 0, 20) == play(plain(), 0, 20)
    assert patient.origin("00000") == "random"


def test_suggest_while_computing_returns_none():
    release = threading.Event()

    class Slow(LearningSearch):
        def suggest(self, trial_id):
            release.wait(60)
            return super().suggest(trial_id)

    search = ahead(search=Slow)
    assert search.suggest("a") is None  # computing one needs `release`
    search.on_trial_result("unknown", {"loss": 1.0})
    assert search.suggest("a") is None
    release.set()
    assert wait(search, "a")["fixed"] == 3


def test_suggest_with_many_slots_keeps_spare_suggestions():
    search = ahead(slots=64, search=Counted)
    wait(search, "0")
    search.settle()
    assert all(search.suggest(str(number)) for number in range(1, 64))
    assert suggested(search) == 64 + 8


def test_suggest_with_few_slots_keeps_no_spare_suggestions():
    search = ahead(slots=4, search=Counted)
    wait(search, "0")
    assert suggested(search) == 1


def test_reports_during_the_first_suggestions_wait_for_all_of_them():
    """So that a model need not be fitted anew for each."""
    order = []

    class Busy(LearningSearch):
        def suggest(self, trial_id):
            order.append("suggest")
            search.on_trial_result("0", {"loss": 1.0, "training_iteration": len(order)})
            return super().suggest(trial_id)

        def on_trial_result(self, trial_id, result):
            order.append("report")

    search = ahead(slots=64, search=Busy)
    assert search.suggest("0") is None
    search.settle()
    assert order == ["suggest"] * 65 + ["report"] * 65


def test_exit_while_computing_finishes_the_suggestion():
    """A thread that is killed inside of numpy aborts the process."""
    code = (
        "import time\n"
        "from tuner.search.searchers._background import BackgroundSearch\n"
        "from tuner.search.searchers._learning import LearningSearch\n"
        "class Slow(LearningSearch):\n"
        "    def suggest(self, trial_id):\n"
        "        time.sleep(0.5)\n"
        "        print('computed')\n"
        "        return super().suggest(trial_id)\n"
        "BackgroundSearch(Slow(None, {'x': 'uniform(0, 1)'}, 'loss', 'min', 0)).suggest('a')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "computed\n")


def test_suggest_in_a_finite_space_finishes():
    search = ahead(space=FINITE)
    configs = [wait(search, str(number)) for number in range(9)]
    assert len({json.dumps(config) for config in configs}) == 9
    assert wait(search, "9") == Searcher.FINISHED


def test_suggest_after_an_error_in_the_thread_raises_it():
    class Broken(LearningSearch):
        def suggest(self, trial_id):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wait(ahead(search=Broken), "a")


def test_first_suggestion_knows_earlier_points():
    search = ahead(slots=64, space={"a": "choice([1, 2])"})
    search.add_evaluated_point({"a": 1}, 0.5)
    assert wait(search, "00000") == {"a": 2}


def test_replay_of_earlier_trials_reports_at_once_and_suggests_nothing():
    """Else a complete journal would wait in the inbox, and a suggestion could repeat a config."""
    uninterrupted = plain()
    search = ahead(slots=16, search=Counted)
    for number, config in enumerate(play(uninterrupted, 0, 12)):
        trial_id, result = f"{number:05d}", {"loss": loss_of(config), "training_iteration": 1}
        search.take_trial(trial_id, config)
        search.on_trial_complete(trial_id, result)
        assert search.search.origin(trial_id) == "resumed"
        assert search.search.observations.trials[trial_id].reports
    assert wait(search, "00012") == uninterrupted.suggest("00012")
    assert suggested(search) == 1 + 2  # none as for a search that has no reports yet
