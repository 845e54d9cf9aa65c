"""Runners of a queue over real processes that train nothing (`played`), and their ends by force."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from socket import gethostname
from types import SimpleNamespace
from uuid import uuid4

import pytest
from synthetic import Writer, make_folder

from tuner.cluster import LOCAL
from tuner.errors import ExperimentError
from tuner.experiment.control import read_requests
from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote.lease import Watch, find_holder, take_lease
from tuner.experiment.remote.objects import FolderObjects
from tuner.places import ROOT
from tuner.service.queue import runner as runner_module
from tuner.service.queue.entries import Entry, Queue
from tuner.service.queue.runner import Runner, Terms
from tuner.service.queue.shares import Room

HERE = Path(__file__).parent
PLAYED = (sys.executable, str(HERE / "played.py"))
PATIENCE_S = 60
SPEC = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 8}


@pytest.fixture(autouse=True)
def played(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), *sys.path]))


class Played:
    """A storage with a queue of searches that are played, and what was started there."""

    def __init__(self, storage):
        self.storage = storage
        self.queue = Queue(str(storage))
        self.lines = []

    def add(self, name, user="ann", **fields):
        spec = SPEC | {"name": name} | fields
        directory = str(self.storage)
        added = time.time()
        self.queue.add(
            Entry(name=name, user=user, added=added, directory=directory, spec=spec)
        )

    def ends(self, name, how):
        partial = self.storage / f".{name}.ends"
        partial.write_text(how)
        partial.rename(self.storage / f"{name}.ends")

    def runner(self, at_once=2, cpus=4, terms=None, kind=Runner, **options):
        terms = terms or Terms(at_once, {}, command=PLAYED, every_s=0.02)
        options = {"capacity": lambda gpus: Room(cpus), **options}
        return kind(self.queue, terms, notify=self.lines.append, **options)

    @property
    def starts(self):
        file = self.storage / "starts"
        return file.read_text().splitlines() if file.exists() else []

    def until(self, condition, *runners):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.lines, self.starts)
            for runner in runners:
                runner.run_turn()
            time.sleep(0.02)

    def ended(self, name):
        return self.queue.read_end(name)


@pytest.fixture
def play(tmp_path):
    play = Played(tmp_path)
    yield play
    for name in play.queue.list_files():  # searches that a failed test has left running
        play.ends(name, "completed")


def test_turn_runs_entries_in_order_past_a_failure(play):
    for name, how in (("a", "completed"), ("b", "fails"), ("c", "completed")):
        play.add(name)
        play.ends(name, how)
    runner = play.runner(at_once=1)
    play.until(lambda: play.queue.read_end("c"), runner)
    assert play.starts == ["run a 4", "run b 4", "run c 4"]
    assert [play.ended(name).status for name in "abc"] == [
        "completed",
        "failed",
        "completed",
    ]
    assert (play.ended("a").code, play.ended("a").why) == (0, "")
    failed = play.ended("b")
    assert (failed.code, failed.why) == (1, "error: it failed")
    assert "b failed: error: it failed" in play.lines
    assert not runner.run_turn()
    assert runner.failed == 1


def test_turn_starts_second_search_once_the_first_gives_up_trials(play):
    play.add("a")
    play.add("b", "bob")
    runner = play.runner()
    runner.run_turn()
    play.until(lambda: play.starts, runner)
    assert play.starts == ["run a 4"]  # as the machine has
    folder = ExperimentFolder(play.storage / "a")
    play.until(lambda: read_requests(folder), runner)
    [request] = read_requests(folder)
    assert (request.control.model_dump(), request.by) == (
        {"verb": "max-concurrent", "max_concurrent": 2},
        "queue",
    )
    for _ in range(5):
        runner.run_turn()
    assert play.starts == ["run a 4"]  # which may still run four trials at a time
    assert len(read_requests(folder)) == 1
    for name in ("a", "b"):
        play.ends(name, "completed")
    play.until(lambda: play.queue.read_end("b"), runner)
    assert play.starts == ["run a 4", "run b 4"]


@pytest.mark.slow
def test_two_runners_run_each_entry_once(play):
    names = [f"e{number}" for number in range(6)]
    for name in names:
        play.add(name)
        play.ends(name, "completed")
    runners = [play.runner(at_once=2, cpus=16) for _ in range(2)]
    play.until(lambda: not play.queue.list_open(), *runners)
    assert sorted(line.split()[1] for line in play.starts) == names
    assert {play.ended(name).status for name in names} == {"completed"}


def test_run_waits_for_other_runner_of_this_machine(play):
    lease = play.queue.watch_runner(gethostname()).take_if_free()
    thread = threading.Thread(target=play.runner().run)
    thread.start()
    play.until(lambda: play.lines)
    assert play.lines == [
        "another runner is at work here; this one takes over when it ends"
    ]
    assert thread.is_alive()
    lease.release()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert play.queue.watch_runner(gethostname()).is_free()


def test_run_ends_if_another_runner_takes_over(snapshot, play):
    class Followed(Runner):
        def run_turn(self):
            is_left = super().run_turn()
            if play.starts:
                for lease in (
                    lease_of(self),
                    *(s.lease for s in self._searches.values()),
                ):
                    taken_over(lease)
                self._next_beat = 0
            return is_left

    play.add("a")
    runner = play.runner(kind=Followed)
    with snapshot.raises(ExperimentError):
        runner.run()
    assert play.queue.find_folder("a").is_driven


def test_turn_leaves_experiment_of_other_origin(play):
    play.add("a")
    Writer(make_folder(play.storage / "a")).trial(0, [0.5], end=None)
    runner = play.runner()
    play.until(lambda: play.queue.read_end("a"), runner)
    assert play.ended("a").why == "an experiment a exists, which is not the queue's"
    assert play.starts == []


def test_turn_fails_entry_that_cannot_start(play):
    play.add("a", num_samples=0)
    play.add("b")
    play.ends("b", "completed")
    terms = Terms(1, {}, command=("/no/such/tuner",))
    runner = play.runner(terms=terms)
    play.until(lambda: play.queue.read_end("b"), runner)
    assert "num_samples: must be" in play.ended("a").why
    assert "No such file" in play.ended("b").why


def test_killed_runner_is_followed_without_loss_or_repetition(play):
    for name in ("done", "runs", "dies", "waits"):
        play.add(name)
    play.ends("done", "completed")
    command = [sys.executable, str(HERE / "a_runner.py"), str(play.storage), "3"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            play.until(lambda: play.queue.read_end("done") and len(play.starts) >= 2)
        finally:
            process.kill()
    was_running = {line.split()[1] for line in play.starts} - {"done"}
    assert was_running
    for name in was_running:
        assert play.queue.find_folder(name).is_driven  # it goes on without its runner
    killed = min(was_running)
    play.ends(killed, "dies")
    play.until(lambda: not play.queue.find_folder(killed).is_driven)
    second = play.runner(at_once=3)
    second.run_turn()
    for name in was_running - {killed}:
        assert f"{name} runs already" in play.lines
    for name in ("runs", "dies", "waits"):
        play.until(lambda name=name: not (play.storage / f"{name}.ends").exists())
        play.ends(name, "completed")
    play.until(lambda: not play.queue.list_open(), second)
    runs = sorted(line.split()[1] for line in play.starts if line.startswith("run "))
    assert runs == ["dies", "done", "runs", "waits"]
    assert [line for line in play.starts if line.startswith("resume ")] == [
        f"resume {killed} 4"
    ]
    for name in runs:
        assert play.ended(name).status == "completed"


def test_search_of_a_runner_that_was_killed_at_its_start_is_no_failure(
    play, monkeypatch
):
    """Its driver creates the folder after the next runner has looked for it."""
    begin = runner_module.start_command

    def late(*arguments):
        make_folder(play.storage / "a", max_concurrent=4)
        monkeypatch.undo()
        os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *sys.path])
        return begin(*arguments)

    monkeypatch.setattr(runner_module, "start_command", late)
    play.add("a")
    play.ends("a", "completed")
    play.until(lambda: play.queue.read_end("a"), play.runner())
    assert (play.ended("a").status, play.starts) == ("completed", ["resume a 4"])


class Interrupted(Runner):
    def run_turn(self):
        super().run_turn()
        raise KeyboardInterrupt


def test_end_of_a_runner_names_the_searches_that_go_on(play):
    """A user has resumed the search, whose runner has gone."""
    play.add("a")
    assert not play.queue.has_begun("a")  # a runner that has gone began it
    options = ["--name", "a", "--storage", str(play.storage), "--max-concurrent", "3"]
    with subprocess.Popen([*PLAYED, "run", *options]) as driver:
        play.until(lambda: play.starts)
        with pytest.raises(KeyboardInterrupt):
            play.runner(kind=Interrupted).run()
        assert play.lines == [
            "a runs already",
            "its searches end; the next `tuner queue run` goes on with them",
            "not ended, as no runner on this machine has started them: a",
        ]
        assert driver.poll() is None
        play.ends("a", "completed")


def test_end_of_a_runner_ends_the_search_that_it_has_adopted(play):
    play.add("a")
    command = [sys.executable, str(HERE / "a_runner.py"), str(play.storage), "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        try:
            play.until(lambda: play.starts)
        finally:
            first.kill()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
        try:
            adopts = second.stdout.readline()
        finally:
            second.terminate()
        lines = second.stdout.readlines()
    assert adopts == "a runs already\n"
    assert lines == ["its searches end; the next `tuner queue run` goes on with them\n"]
    assert not play.queue.find_folder("a").is_driven
    assert play.ended("a") is None
    play.ends("a", "completed")
    play.runner().run()
    assert play.starts == ["run a 4", "resume a 4"]
    assert play.ended("a").status == "completed"


def test_search_whose_ray_dies_is_resumed_while_it_makes_progress(play):
    play.add("a")
    runner = play.runner()
    deaths = ["ray dies later"] * 3 + ["ray dies"] * 3
    for count, how in enumerate(deaths, 1):
        play.until(lambda count=count: len(play.starts) == count, runner)
        play.ends("a", how)
    play.until(lambda: play.queue.read_end("a"), runner)
    assert play.starts == ["run a 4", *["resume a 4"] * (len(deaths) - 1)]
    error = (
        "error: Ray's raylet has died, and the search with it; go on with: a command"
    )
    assert (
        play.lines.count(f"the driver of a has ended too early: {error}")
        == len(deaths) - 1
    )
    assert (play.ended("a").status, play.ended("a").code) == ("failed", 1)
    assert play.ended("a").why == error


def test_turn_adopts_search_in_bucket_driven_elsewhere(tmp_path, monkeypatch):
    storage = f"memory://{uuid4().hex}/results"
    lines = list[str]()
    monkeypatch.setenv(ROOT, str(tmp_path / "there"))
    queue = Queue(storage)
    queue.add(
        Entry(name="a", user="ann", added=1.0, directory="/", spec=SPEC | {"name": "a"})
    )
    assert not queue.has_begun("a")
    folder = queue.find_folder("a")
    made = ExperimentFolder(make_folder(tmp_path / "a", max_concurrent=3))
    folder.create(made.read_document(), empty=[JOURNAL])
    with folder.open_storage(lines.append):
        monkeypatch.setenv(ROOT, str(tmp_path / "here"))
        Runner(
            Queue(storage),
            Terms(1, {}),
            capacity=lambda gpus: Room(4),
            notify=lines.append,
        ).run_turn()
        assert lines == ["a runs already"]
        monkeypatch.setenv(ROOT, str(tmp_path / "there"))
        [pending] = read_requests(folder)
        assert pending.control.model_dump() == {
            "verb": "max-concurrent",
            "max_concurrent": 4,
        }


def test_turn_ignores_damaged_entry(play):
    play.add("a")
    (play.storage / ".queue/a/entry.json").write_text("{")
    assert not play.runner().run_turn()


@pytest.mark.parametrize(
    ("address", "gpus", "shared"),
    [(LOCAL, 0.5, "gpus:3,5"), (LOCAL, 0, ""), ("auto", 0.5, "")],
)
def test_turn_shares_gpus_of_this_machine(play, address, gpus, shared):
    play.add("a", resources={"gpus": gpus})
    show = "import os; print(os.environ.get('TUNER_SHARED_GPUS', ''))"
    terms = Terms(1, {}, address=address, command=(sys.executable, "-c", show))
    runner = play.runner(terms=terms, gpus=lambda: ("3", "5"))
    play.until(lambda: play.queue.read_end("a"), runner)
    assert play.queue.find_log("a").read_text().strip().rpartition("/")[2] == shared


def test_turn_starts_search_once_a_whole_gpu_is_free(play):
    unused = [(0.5, 0.5)]
    play.add("halves", resources={"gpus": 0.5}, max_concurrent=2)
    play.add("whole", resources={"gpus": 1})
    runner = play.runner(
        capacity=lambda gpus: Room(4, (1.0, 1.0)),
        gpus=lambda: ("0", "1"),
        unused=lambda folder, names: unused[-1],
    )
    play.until(lambda: play.starts, runner)
    for _ in range(5):
        runner.run_turn()
    assert play.starts == ["run halves 2"]
    unused.append((0.0, 1.0))
    play.until(lambda: play.starts[1:], runner)
    assert play.starts == ["run halves 2", "run whole 1"]


def lease_in(folder):
    return Watch(FolderObjects(folder)).take_if_free()


def lease_of(runner):
    return runner._lease


def taken_over(lease):
    take_lease(lease.objects, find_holder(lease.objects))


def test_renew_drops_searches_that_another_runner_has_taken_over(snapshot, play):
    holding = play.runner()
    holding._lease = lease_in(play.storage / "lease")
    for name in ("killed", "two"):
        holding._searches[name] = SimpleNamespace(lease=lease_in(play.storage / name))
    taken_over(holding._searches["killed"].lease)
    holding.renew_leases()
    assert list(holding._searches) == ["two"]
    taken_over(lease_of(holding))
    holding._next_beat = 0
    with snapshot.raises(ExperimentError):
        holding.renew_leases()
