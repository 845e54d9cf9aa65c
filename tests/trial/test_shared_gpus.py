"""Processes of several searches that share GPUs; no card is needed to choose among them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_worker import context

from tuner.trial import shared_gpus
from tuner.trial.shared_gpus import VISIBLE, room, sharing, should_move, take
from tuner.trial.trial_process import TrialProcess

WAITING = "waiting for a GPU that another search still uses"
HOLDER = f"""
import os, sys
from tuner.trial.shared_gpus import take
print("begun", flush=True)
take(float(sys.argv[1]))
print(os.environ["{VISIBLE}"], flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that keeps what it has taken until it is killed."""

    def __init__(self, environment: dict[str, str], amount: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(amount)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "begun"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    @property
    def gpus(self) -> str:
        """Those that it has, or WAITING, once it says so."""
        return self._line()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


Hold = Callable[[float], Holder]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Starts processes that share the GPUs 2 and 3, as a machine may show these alone."""
    holders = []

    def start(amount: float) -> Holder:
        holders.append(Holder(sharing(tmp_path / "new: one", ["2", "3"]), amount))
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()


def test_each_has_a_gpu_of_its_own_and_one_that_is_killed_gives_it_back(hold: Hold) -> None:
    first, second = hold(1), hold(1)
    had = first.gpus
    assert {had, second.gpus} == {"2", "3"}
    third = hold(1)
    assert third.gpus == WAITING
    first.kill()
    assert third.gpus == had


def test_shares_lie_together_so_that_a_whole_gpu_stays_free(hold: Hold) -> None:
    thirds = [hold(1 / 3).gpus for _ in range(3)]
    assert len(set(thirds)) == 1
    assert {thirds[0], hold(1).gpus} == {"2", "3"}


def test_several_whole_ones_are_had_together(hold: Hold) -> None:
    assert hold(2).gpus == "2,3"


def test_one_that_waits_is_not_overtaken(hold: Hold) -> None:
    halves = []
    for gpu in ("2", "2", "3"):
        halves.append(hold(0.5))
        assert halves[-1].gpus == gpu
    whole = hold(1)
    assert whole.gpus == WAITING
    late = hold(0.5)  # for which there would be room
    halves[2].kill()
    assert whole.gpus == "3"
    assert late.gpus == WAITING
    halves[0].kill()
    assert late.gpus == "2"


def test_take_waits_for_a_whole_gpu_while_others_pass_to_another(hold: Hold) -> None:
    halves = [hold(0.5) for _ in range(3)]
    assert [half.gpus for half in halves] == ["2", "2", "3"]
    halves[0].kill()  # a half of each is left
    whole = hold(1)
    assert whole.gpus == WAITING
    quarters = [hold(0.25) for _ in range(2)]
    assert [quarter.gpus for quarter in quarters] == ["2", "2"]  # `whole` has claimed the other
    halves[2].kill()
    assert whole.gpus == "3"


def test_room_is_what_is_free_of_each_gpu_and_none_of_a_claimed_one(
    hold: Hold, tmp_path: Path
) -> None:
    folder = tmp_path / "new: one"
    assert room(folder, ["2", "3"]) == (1, 1)
    halves = [hold(0.5) for _ in range(3)]
    assert [half.gpus for half in halves] == ["2", "2", "3"]
    halves[0].kill()
    assert room(folder, ["2", "3"]) == (0.5, 0.5)
    assert hold(1).gpus == WAITING
    assert room(folder, ["2", "3"]) == (0.5, 0)


def test_a_share_alone_on_its_gpu_should_move_beside_another(
    hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_gpus, "_held", {})
    monkeypatch.setenv(VISIBLE, "")
    for name, value in sharing(tmp_path / "new: one", ["2", "3"]).items():
        monkeypatch.setenv(name, value)
    assert not should_move(0.5)  # it has taken nothing
    halves = [hold(0.5) for _ in range(2)]
    assert [half.gpus for half in halves] == ["2", "2"]
    take(0.5)
    assert os.environ[VISIBLE] == "3"
    assert not should_move(0.5)
    halves[0].kill()
    assert should_move(0.5)
    assert room(tmp_path / "other", ["2"]) == (1,)
    assert hold(0.5).gpus == "2"
    assert hold(0.5).gpus == "3"  # `should_move` has kept this process's half, and no more
    for file in shared_gpus._held.values():
        file.close()


def test_who_shares_nothing_sees_what_ray_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "7")
    take(1)
    for name, value in sharing(tmp_path, ["0"]).items():
        monkeypatch.setenv(name, value)
    take(0)
    assert os.environ[VISIBLE] == "7"


def test_a_trial_takes_its_part_before_its_module_is_imported_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_gpus, "_held", {})
    monkeypatch.setenv(VISIBLE, "0")
    for name, value in sharing(tmp_path / "gpus", ["GPU-5"]).items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        TrialProcess(context(tmp_path, trainable="no_such_module:train", gpus=1))
    assert os.environ[VISIBLE] == "GPU-5"
    [file] = shared_gpus._held.values()
    file.close()
