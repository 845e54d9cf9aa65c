"""Kills a search at random moments, resumes it, and compares it with an uninterrupted search.

    python -m benchmarks.faults [--rounds 30] [--searches grid,random,hyperopt,bayesopt] [--seed 0]
    python -m benchmarks.faults --searches random --workers 2 --targets rank,worker,driver
    python -m benchmarks.faults --targets power,vanished      needs the right to mount a disk
    python -m benchmarks.faults --targets silent
    python -m benchmarks.faults --targets control,driver,everything
    python -m benchmarks.faults --hits 6        more moments in a round, where time is short
    python -m benchmarks.faults --add 'objective.limits=["val_loss <= 1"]'     more for `tuner run`
    python -m benchmarks.faults --patience 4    waits so many times as long, on a busy machine
    python -m benchmarks.faults --searches photos --targets driver,everything
    python -m benchmarks.faults --keep DIR      leaves the experiments there for inspection
    python -m benchmarks.faults --bucket        in an S3 server on this machine; needs tuner[dev]

Each round runs a small search on digits with `--max-concurrent 1`. At one to three moments, or up
to `--hits`, it sends SIGKILL to the driver, a worker, a rank (with --workers above 1), the raylet,
the GCS, or everything at once. A moment is a random line of the journal plus up to half a second.
If that line has already been written when the search is resumed, the moment is a random time
during the start. Whenever the driver is gone, the search is resumed. If a search ends before its
moment comes, the round is repeated with other moments. A round is clean if

- every trial is there once, with the reference's config, status, stop epoch and values, to the bit;
- so is the best trial;
- the trials' own notes show that each trial began its epochs in order: a trial went back to the
  epoch after its newest checkpoint of the journal and no further, and no more often than something
  was killed;
- the driver was gone within 15 s if a kill ended it, and every process of the search 15 s after it.

A trial whose process died three times would fail, as it should. So of one driver's workers and
ranks at most two are killed; a moment after that hits something else, if there is something else.

A worker that is `silent` gets SIGSTOP instead. The driver must end it in time, and its trial fails
as `timeout`; so what the search comes to differs from the reference. Such a round is clean if each
trial is there once, no more of them failed than were hit and each as `timeout`, the others have an
end of their own, and the exit code says so. With grid and random the configs are the reference's.

Two targets are no processes. `power` is that of the disk that the search writes to: what was not
forced to it is lost, and everything is killed. A trial may then begin epochs again that it had
begun in the last 10 s. `vanished` moves the experiment's folder away until the driver has ended.

`control` is no kill: the search is asked to pause, and a moment later to go on. What it comes to is
the reference's nevertheless, and no trial begins an epoch again for it.

`photos` is `tuner run folder:` with two heads in folds on the features of packaged weights, and the
refit, on 72 drawn images of 96 pixels. A third of its moments is while it computes features; the
weights that it exports are the reference's, too. What was killed is counted for each stage.

Linux only: processes are found by the mark that the driver gives them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.power_cut import Disk
from tuner.experiment.files import sync
from tuner.experiment.remote.objects import Objects
from tuner.places import ROOT, find_local_folder

DEFAULT = ["driver", "worker", "raylet", "gcs", "everything"]
WORKER = r"ray::(LearnerTrial|ResourceTrainable)"  # between two epochs, and within one
TARGETS = {  # of SIGKILL -> a pattern of what its command line has in it
    "driver": "",
    "worker": WORKER,
    "silent": WORKER,
    "rank": "ray::_Rank",
    "raylet": "raylet/raylet",
    "gcs": "gcs_server",
    "everything": "",
    "power": "",
    "vanished": "",
    "control": "",
}
# Dead twice in an epoch it fails: not before the next
OF_TRIALS = ("worker", "rank", "silent")
TRIED_AGAIN = ("worker", "rank")  # twice
PATIENCE_S = 10  # of the driver with a worker, where some are silent
LIMIT_S = 300  # a search that is not done by then is stuck
GONE_S = 15
LOST_S = 10  # of what was begun before a power cut
EPOCHS = 8
TRIALS = 8
SPEC = {
    "trainable": "benchmarks.counted:Counted",
    "search": {
        "space": {"lr": "loguniform(1e-2, 1)", "momentum": "choice([0.8, 0.9])"}
    },
    "scheduler": {"max_t": EPOCHS, "grace_period": 1, "reduction_factor": 2},
    "checkpoints": {"every_s": 0.5},
    "num_samples": TRIALS,
    "max_concurrent": 1,
}
PHOTOS = [
    "training.image_size=96",
    "--num-samples=2",
    "--max-concurrent=1",
    "time_budget_s=null",
]
BUCKET = "s3://experiments"
# Reports before a model suggests
LEARNS_AFTER = {"hyperopt": 3, "bayesopt": 3, "bohb": 3, "mixed": 3}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--first", type=int, default=0, help="Number of the first round."
    )
    parser.add_argument(
        "--searches", type=names, default="grid,random,hyperopt,bayesopt"
    )
    parser.add_argument("--targets", type=names, default=DEFAULT)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--hits", type=int, default=3, help="At most so many in a round."
    )
    parser.add_argument(
        "--add", type=shlex.split, default=[], help="Arguments of `tuner run`."
    )
    parser.add_argument("--patience", type=float, default=1, help="Times the usual.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument(
        "--bucket", action="store_true", help="The storage is an object store."
    )
    options = parser.parse_args()
    if options.bucket and (local_only := {"power", "vanished"} & set(options.targets)):
        parser.error(
            f"{', '.join(sorted(local_only))}: of a folder alone, not of a bucket"
        )
    if "power" in options.targets and (fault := why_no_disk()):
        say(f"power is left out, as no disk of a file can be mounted here: {fault}")
        options.targets.remove("power")
    unclean = 0
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="faults-")
        )
        if options.bucket:
            stack.enter_context(store(Path(folder)))
        for search in options.searches:
            unclean += rounds(search, Path(folder).resolve() / search, options)
    return 1 if unclean else 0


def why_no_disk() -> str | None:
    """What keeps this process from mounting a disk whose power it can cut."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Disk(Path(folder, "image"), Path(folder, "disk")).mounted():
                return None
        except OSError as error:
            return str(error)


@contextlib.contextmanager
def store(folder: Path) -> Iterator[None]:
    """Within it there is BUCKET, of which this machine has copies in `folder`."""
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests")]
    import stores

    server = stores.serve()
    os.environ |= {**stores.environment(server), ROOT: str(folder / "mirrors")}
    stores.make_bucket()
    assert stores.BUCKET == BUCKET
    try:
        yield
    finally:
        server.stop()


def names(text: str) -> list[str]:
    """The names in a list with commas."""
    return text.split(",")


def rounds(search: str, folder: Path, options: argparse.Namespace) -> int:
    """Run all rounds of one strategy and print its line; how many were not clean."""
    folder.mkdir(parents=True)
    draw_photos(folder / "drawn")
    reference = Search(search, folder / "reference", options)
    started = time.monotonic()
    reference.start()
    assert reference.wait() == 0, "the reference failed"
    lines = reference.lines()
    expected = reference.outcome()
    assert "trials" in expected, expected
    say(
        f"{search}: the reference took {time.monotonic() - started:.0f} s, {lines} lines"
    )
    clean = 0
    kills = Counter()
    for number in range(options.first, options.first + options.rounds):
        started = time.monotonic()
        rng = random.Random(f"{options.seed}-{search}-{number}")
        for attempt in count():
            storage = folder / f"round-{number}-{attempt}"
            killed = Round(Search(search, storage, options), rng)
            with (
                killed.search.disk.mounted()
                if "power" in options.targets
                else contextlib.nullcontext()
            ):
                killed.run(options.targets, lines)
                killed.faults += killed.differences(expected)
                kills_alone = [target for target in killed.hit if target != "control"]
                killed.faults += killed.search.went_back(len(kills_alone))
            if killed.hit or killed.faults:
                break  # else the search was over before its moment came
        faults = killed.faults
        kills.update(killed.hit)
        clean += not faults
        told = "; ".join(faults) or "clean"
        took = time.monotonic() - started
        say(f"{search} {number}: {', '.join(killed.hit)} killed, {told} ({took:.0f} s)")
    counts = ", ".join(f"{target} {times}" for target, times in sorted(kills.items()))
    print(
        f"{search:9} {clean} of {options.rounds} rounds clean; killed: {counts}",
        flush=True,
    )
    return options.rounds - clean


def draw_photos(folder: Path) -> None:
    """72 images of three classes, which differ in the size of their squares."""
    rng = np.random.default_rng(0)
    for number in range(72):
        label = number % 3
        squares = 2 + 3 * label
        pixels_HWC = rng.integers(0, 256, (squares, squares, 3), np.uint8)
        path = folder / f"{label}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels_HWC).resize((112, 112)).save(path)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class Search:
    """One experiment: its folder, and the process of its driver."""

    strategy: str
    storage: Path
    options: argparse.Namespace
    driver: subprocess.Popen[bytes] | None = None
    cuts: list[float] = field(default_factory=list)  # when the power was cut

    @cached_property
    def disk(self) -> Disk:
        return Disk(self.storage.with_suffix(".image"), self.storage / "results")

    def mounted(self) -> contextlib.AbstractContextManager[object]:
        """For whatever is done to the storage: a disk of its own, if its power is to be cut."""
        by_disk = "power" in self.options.targets
        return self.disk.mounted() if by_disk else contextlib.nullcontext()

    @property
    def place(self) -> str:
        """Where the experiment lies: a folder, or a URL."""
        if self.options.bucket:
            return f"{BUCKET}/{self.strategy}/{self.storage.name}"
        return str(self.storage / "results")

    @property
    def folder(self) -> Path:
        """The experiment on this machine."""
        return find_local_folder(self.place) / "x"

    @property
    def has_begun(self) -> bool:
        if self.options.bucket:
            return Objects(f"{self.place}/x").has("experiment.json")
        return self.folder.exists()

    def start(self) -> None:
        """Run the search, or go on with it where it has begun."""
        if not (self.storage / "spec.json").exists():
            self.storage.mkdir(exist_ok=True)
            marks = {
                "width": 4,
                "batch_size": 64,
                "norm": "group",
                "marks": str(self._marks),
            }
            space = {**SPEC["search"]["space"]}
            search = {"strategy": self.strategy, "space": space}
            if self.strategy in LEARNS_AFTER:
                search["startup"] = LEARNS_AFTER[self.strategy]
            spec = {**SPEC, "training": marks, "search": search}
            spec["resources"] = {"workers": self.options.workers}
            if "silent" in self.options.targets:
                spec["timeouts"] = {"report_s": PATIENCE_S * self.options.patience}
            (self.storage / "spec.json").write_text(json.dumps(spec))
        what = [str(self.storage / "spec.json")]
        if self.strategy == "photos":
            what = [f"folder:{self.storage.parent}/drawn", *PHOTOS]
        words = ["run", *what, "--name", "x", *self.options.add]
        if self.has_begun:
            words = ["resume", "x"]
        words += ["--storage", self.place, "--no-evaluate"]
        with (self.storage / "log.txt").open("ab") as log:
            command = [sys.executable, "-m", "tuner", *words]
            env = os.environ | {"TUNER_DATA": str(self.storage / "data")}
            self.driver = subprocess.Popen(command, stdout=log, stderr=log, env=env)

    def wait(self) -> int:
        """The exit code of the driver; it is killed when it takes too long."""
        assert self.driver is not None
        try:
            return self.driver.wait(LIMIT_S * self.options.patience)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            return self.driver.wait()

    def is_over(self) -> bool:
        return self.driver is None or self.driver.poll() is not None

    def lines(self, pattern: bytes = b"\n") -> int:
        """How many lines the journals have, the refit's too, or how often a pattern occurs."""
        journals = self.folder.parent.glob("x*/journal.jsonl")
        with contextlib.suppress(OSError):
            return sum(journal.read_bytes().count(pattern) for journal in journals)
        return 0

    def reports(self) -> int:
        """How many epochs the journals have."""
        return self.lines(b'"event":"result"')

    @property
    def stage(self) -> str:
        """What a search on photos does now, as " in heads"; of another nothing."""
        if self.strategy != "photos":
            return ""
        if self.folder.with_name("x-refit").exists():
            return " in refit"
        return " in heads" if self.reports() else " in features"

    def outcome(self) -> dict[str, Any]:
        """What the search came to: the same for a killed and for an unkilled one."""
        from tuner.errors import TunerError
        from tuner.experiment.results.results import load_results

        try:
            results = load_results("x", self.place)
            weights = self._digest_refit() if self.strategy == "photos" else ""
        except TunerError as error:
            return {"status": f"unreadable: {error}"}
        trials = {
            t.trial_id: (t.config, t.status, t.last_epoch, t.list_values("val_loss"))
            for t in results.trials.values()
        }
        failed = Counter(t.error.kind for t in results.trials.values() if t.error)
        best = results.show()["best"]
        folders = sorted(path.name for path in (self.folder / "trials").iterdir())
        value = best and (best["trial_id"], best["epoch"], best["metrics"]["val_loss"])
        found = {
            "status": results.status,
            "trials": trials,
            "best": value,
            "folders": folders,
        }
        return {**found, "failed": failed, "weights": weights}

    def _digest_refit(self) -> str:
        """The SHA-256 of the weights that the refit exports."""
        from tuner.experiment.results.results import load_results

        refit = load_results("x-refit", self.place)
        with tempfile.TemporaryDirectory(dir=self.storage) as folder:
            model = refit.export(Path(folder) / "model") / "model.safetensors"
            return hashlib.sha256(model.read_bytes()).hexdigest()

    def differences(self, expected: dict[str, Any]) -> list[str]:
        found = self.outcome()
        return [
            f"{key} differs: {found.get(key)}" if key == "status" else f"{key} differs"
            for key in expected
            if expected[key] != found.get(key)
        ]

    def faults_beside_silence(self, expected: dict[str, Any], hits: int) -> list[str]:
        """What differs from the reference beyond `hits` trials that failed as `timeout`."""
        found = self.outcome()
        faults = [
            f"{key} differs: {found.get(key)}"
            for key in ("status", "folders")
            if expected[key] != found.get(key)
        ]
        failed = found.get("failed", {})
        if failed.keys() - {"timeout"} or sum(failed.values()) > hits:
            faults.append(f"failed: {failed}, {hits} were silent")
        statuses = {status for _, status, *_ in found.get("trials", {}).values()}
        if statuses - {"completed", "stopped", "failed"}:
            faults.append(f"trials ended as {statuses}")
        if self.strategy not in LEARNS_AFTER and configs(found) != configs(expected):
            faults.append("configs differ")
        return faults

    def went_back(self, kills: int) -> list[str]:
        """Trials that began an epoch again without need, by their own marks."""
        begun: dict[str, list[tuple[int, float]]] = {}  # epochs, and when
        if self.strategy == "photos":  # its Learner leaves no marks
            return []
        for line in self._marks.read_text().splitlines():
            config, epoch, at = json.loads(line)
            begun.setdefault(json.dumps(config, sort_keys=True), []).append((epoch, at))
        saved = self._saved()
        faults = []
        for config, marks in begun.items():
            steps = [
                (before, after)
                for before, after in pairwise([(0, 0.0), *marks])
                if after[0] != before[0] + 1
                and not self._was_lost(marks, before, after)
            ]
            needless = any(
                epoch
                != 1
                + max((e for e, when in saved.get(config, []) if when < at), default=0)
                for _, (epoch, at) in steps
            )
            if needless or len(steps) > kills:
                faults.append(
                    f"{config} began the epochs {[epoch for epoch, _ in marks]}"
                )
        return faults

    def _saved(self) -> dict[str, list[tuple[int, float]]]:
        """By config the epochs whose checkpoints are journaled, and when they were."""
        saved: dict[str, list[tuple[int, float]]] = {}
        configs: dict[str, str] = {}
        for line in (self.folder / "journal.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "trial_started":
                configs[event["trial_id"]] = json.dumps(event["config"], sort_keys=True)
            elif event["event"] == "checkpoint":
                at = (event["epoch"], event["time"])
                saved.setdefault(configs[event["trial_id"]], []).append(at)
        return saved

    def _was_lost(
        self,
        marks: list[tuple[int, float]],
        before: tuple[int, float],
        after: tuple[int, float],
    ) -> bool:
        """Whether a power cut made a trial begin again what had not been on the disk for long."""
        between = [cut for cut in self.cuts if before[1] < cut < after[1]]
        if not between or after[0] > before[0]:
            return False
        since = max((cut for cut in self.cuts if cut < before[1]), default=0.0)
        ended = [
            at for epoch, at in marks if epoch > after[0] and since < at < between[0]
        ]
        return (
            min(ended, default=math.inf) > between[0] - LOST_S * self.options.patience
        )

    @property
    def _marks(self) -> Path:
        return self.storage / "marks"


class Round:
    """One search with kills: `hit` is what was killed, `faults` what went wrong with processes."""

    def __init__(self, search: Search, rng: random.Random) -> None:
        self.search = search
        self.hit: list[str] = []
        self.faults: list[str] = []
        self._rng = rng
        self._reports = -1  # when a trial's process was last killed
        self._deaths = 0  # of processes of trials, under this driver
        self._code = 0  # of the last driver

    def run(self, targets: list[str], lines: int) -> None:
        """Kill one to three of `targets` over the course of a search of so many `lines`."""
        hits = self._rng.randint(1, self.search.options.hits)
        choices = [*range(lines)]
        if self.search.strategy == "photos":
            choices += [1] * (lines // 2)
        moments = sorted(self._rng.choice(choices) for _ in range(hits))
        others = [target for target in targets if target not in TRIED_AGAIN]
        self.search.start()
        for moment in moments:
            target = self._rng.choice(targets)
            if target in TRIED_AGAIN and self._deaths == 2:
                if not others:
                    break
                target = self._rng.choice(others)
            self._kill_at(moment, target)
            if self.search.is_over():
                self.search.start()
                self._deaths = 0
        self._code = self.search.wait()

    def differences(self, expected: dict[str, Any]) -> list[str]:
        """What the search came to that it should not have."""
        silent = self.hit.count("silent")
        if silent:
            faults = self.search.faults_beside_silence(expected, silent)
            due = 3 if self.search.outcome().get("failed") else 0
        else:
            faults = self.search.differences(expected)
            due = 0
        if self._code != due:
            faults.append(f"the last run ended with {self._code}")
        return faults

    def _kill_at(self, moment: int, target: str) -> None:
        search = self.search
        if search.lines() >= moment:  # passed: while it starts
            time.sleep(self._rng.uniform(0, 5))
        while search.lines() < moment and not search.is_over():
            time.sleep(0.01)
        if target in OF_TRIALS:
            while search.reports() == self._reports and not search.is_over():
                time.sleep(0.01)
        longest_s = 0.5
        if search.stage == " in features":
            longest_s = 5 * search.options.patience
        time.sleep(self._rng.uniform(0, longest_s))
        assert search.driver is not None
        marks: set[bytes] = set()
        while not search.is_over():
            marks |= marks_of(search.driver.pid)
            stage = search.stage
            if self._strike(target, marks):
                self.hit.append(target + stage)
                break
            time.sleep(0.02)  # it is not there yet
        else:
            return
        if target == "control":
            return
        if target in OF_TRIALS:
            self._reports = search.reports()
            self._deaths += 1
            return  # the search goes on by itself
        gone_s = GONE_S * search.options.patience
        ended = time.monotonic() + gone_s
        while not search.is_over() and time.monotonic() < ended:
            time.sleep(0.05)
        if not search.is_over():
            self.faults.append(f"the driver lived on for {gone_s:g} s after {target}")
            search.driver.kill()
        search.driver.wait()
        self.faults += left_over(marks, gone_s)
        if target == "power":
            search.disk.restore()
        elif target == "vanished":
            if search.folder.exists():
                self.faults.append("the folder that was moved away came back")
            move(away(search.folder), search.folder)

    def _strike(self, target: str, marks: set[bytes]) -> bool:
        """Hit the target; whether it was there."""
        search = self.search
        assert search.driver is not None
        if target == "control":
            return self._pause_and_go_on()
        if target == "power":
            search.disk.cut()
            search.cuts.append(time.time())
            return kill("everything", search.driver, marks)
        if target == "vanished":
            if (search.folder / "journal.jsonl").exists():
                move(search.folder, away(search.folder))
            return away(search.folder).exists()
        return kill(target, search.driver, marks)

    def _pause_and_go_on(self) -> bool:
        """Ask the search to pause, and soon to go on; whether it could be asked."""
        from tuner.errors import TunerError
        from tuner.experiment.control import build_control, send_request
        from tuner.experiment.folder import ExperimentFolder

        try:
            for control in map(build_control, ("pause", "go-on")):
                send_request(ExperimentFolder(self.search.folder), control)
                time.sleep(self._rng.uniform(0, 3))
        except TunerError:  # it has not begun, or is over
            return False
        return True


def configs(outcome: dict[str, Any]) -> dict[str, object]:
    """The config of every trial."""
    return {
        trial_id: config for trial_id, (config, *_) in outcome.get("trials", {}).items()
    }


def away(folder: Path) -> Path:
    return folder.with_name("moved away")


def move(folder: Path, to: Path) -> None:
    """Rename a folder for good: a power cut that follows does not undo it."""
    folder.rename(to)
    sync(to.parent)


def marks_of(driver: int) -> set[bytes]:
    """The marks that this driver's children carry in their environment."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PPid:\t{driver}\n" in status:
            found |= {e for e in environment if e.startswith(b"TUNER_SESSION=")}
    return found


def marked(marks: set[bytes]) -> dict[int, str]:
    """pid -> command of every process that carries one of `marks`."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = set((entry / "environ").read_bytes().split(b"\0"))
            words = (
                (entry / "cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
            )
        except OSError:
            continue
        if environment & marks:
            found[int(entry.name)] = words
    return found


def kill(target: str, driver: subprocess.Popen[bytes], marks: set[bytes]) -> bool:
    """SIGKILL the target, or stop one that is to be silent; whether it was there."""
    if target == "driver":
        pids = [driver.pid]
    else:
        processes = marked(marks)
        pids = [
            pid for pid, words in processes.items() if re.search(TARGETS[target], words)
        ]
        if target == "everything":
            pids.append(driver.pid)
        elif target == "rank":
            pids = pids[-1:]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if target == "silent" else signal.SIGKILL)
    return bool(pids)


def left_over(marks: set[bytes], gone_s: float) -> list[str]:
    deadline = time.monotonic() + gone_s
    while marked(marks):
        if time.monotonic() > deadline:
            return [f"alive after {gone_s:g} s: {sorted(marked(marks).values())}"]
        time.sleep(0.2)
    return []


if __name__ == "__main__":
    sys.exit(main())
