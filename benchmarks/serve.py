"""What `tuner serve` costs: an idle server, and the time until its page shows something.

    python -m benchmarks.serve [--experiments 500] [--trials 10000] [--watched 2000] [--runs 5]

Writes a storage of so many experiments, of 30 trials each, and one more of so many trials; none of
them runs. Two thirds of the trials report one epoch, the others up to ten, with seven metrics and a
checkpoint each. Then `tuner serve` is started on it, in a process of its own. Its CPU seconds are
those that the operating system tells: over 30 seconds with no page open, over 30 with one, and at
the end over 30 while 20 more experiments report about once a second. The page is opened in Chromium
without a screen, in a new window each time, with an empty cache: `first paint` and `list` are the
browser's own times from the start of the navigation to the first pixels and to the first rows;
`trials` is that to the rows of the large experiment, opened by its own address, whose journal the
server has then read for the list and reads again for its table.

A third one has `--watched` trials of 50 epochs each, which its page shows in figures: `figures` is
the time from the click on the tab "Hyperparameters" until all of them are drawn, and before it from
the navigation until those of "Progress" are. `update` is that from a change of the filter until the
figures in sight are drawn anew. The page's memory is what its process does not share with others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import psutil

from tuner.experiment.files import EXPERIMENT, JOURNAL
from tuner.experiment.journal import Journal

SPACE = {"lr": "loguniform(0.0001, 1)", "momentum": "uniform(0, 0.9)"}
START = 1_700_000_000.0
METRICS = (
    "train_loss",
    "val_loss",
    "val_accuracy",
    "lr",
    "epoch_s",
    "memory_mib",
    "images_per_s",
)
IDLE_S = 30
BARS = {
    "idle": 0.01,
    "busy": 0.05,
    "first paint": 1.0,
    "figures": 2.0,
    "update": 0.2,
}  # of a core; seconds
MOST_MIB = 300  # of the page
LARGE = "large"
WATCHED = "watched"
RUNNING = 20  # experiments at once
EPOCHS = 50  # of each watched trial
HYPERPARAMETERS = ".tools button:nth-child(2)"
_FIRST_PAINT = (
    "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
)
_MARK = (
    "return performance.getEntriesByName(arguments[0])"
    ".find(({startTime}) => startTime > arguments[1])?.startTime"
)
_CLICK = "document.querySelector(arguments[0]).click()"
_FILTER = (
    "const e = document.querySelector('#where'); e.value = arguments[0];"
    "e.dispatchEvent(new Event('change'))"
)


def write_experiment(folder, trials):
    """An experiment.json of so many trials."""
    spec = {
        "name": folder.name,
        "trainable": "tuner.vision.image_classifier:ImageClassifier",
        "training": {"model": "cnn", "dataset": "digits"},
        "search": {"strategy": "random", "space": SPACE},
        "objective": {"metric": "val_loss", "mode": "min"},
        "scheduler": {
            "name": "asha",
            "max_t": 10,
            "grace_period": 1,
            "reduction_factor": 2,
        },
        "resources": {"cpus": 1, "gpus": 0, "workers": 1},
        "num_samples": trials + 100,
        "seed": 1,
    }
    folder.mkdir(parents=True)
    document = {
        "format": 1,
        "spec": spec,
        "seed": 1,
        "versions": {},
        "git_revision": None,
    }
    (folder / EXPERIMENT).write_text(json.dumps(document))


def events(trials, epochs_each=None):
    """The events of such an experiment, without their times. None: up to ten epochs each."""
    chance = random.Random(0)
    owner = {"host": "nowhere", "pid": 1, "started": START}
    yield {"event": "experiment_started", "resumed": False, "owner": owner}
    for number in range(trials):
        trial_id = f"{number:05}"
        config = {"lr": 10 ** chance.uniform(-4, 0), "momentum": chance.uniform(0, 0.9)}
        yield {
            "event": "trial_started",
            "trial_id": trial_id,
            "config": config,
            "origin": "random",
        }
        epochs = epochs_each or chance.choices((1, 2, 4, 8, 10), (67, 22, 4, 4, 3))[0]
        for epoch in range(1, epochs + 1):
            about = {"trial_id": trial_id, "epoch": epoch}
            metrics = {name: chance.random() / epoch for name in METRICS}
            yield {"event": "result", **about, "metrics": metrics}
            path = f"trials/{trial_id}/checkpoints/{epoch}/state.pt"
            digest = f"{chance.getrandbits(256):064x}"
            yield {"event": "checkpoint", **about, "path": path, "sha256": digest}
        status = "completed" if epochs in (10, epochs_each) else "stopped"
        yield {"event": "trial_ended", "trial_id": trial_id, "status": status}
    yield {"event": "experiment_ended", "status": "completed"}


def write_journal(path, trials, epochs=None):
    """Returns the number of lines."""
    with path.open("w") as file:
        for number, event in enumerate(events(trials, epochs)):
            timed = {"event": event.pop("event"), "time": START + number / 100, **event}
            file.write(json.dumps(timed, separators=(",", ":")) + "\n")
    return number + 1


def write_storage(storage: Path, experiments: int, trials: int, watched: int) -> None:
    """So many small experiments, the large one, and the one with figures."""
    for number in range(experiments):
        folder = storage / f"experiment-{number:04}"
        write_experiment(folder, 30)
        write_journal(folder / JOURNAL, 30)
    write_experiment(storage / LARGE, trials)
    write_journal(storage / LARGE / JOURNAL, trials)
    write_experiment(storage / WATCHED, watched)
    write_journal(storage / WATCHED / JOURNAL, watched, EPOCHS)


def start(storage: Path) -> tuple[subprocess.Popen[str], str]:
    """The server's process, and its URL."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tuner",
            "serve",
            "--port",
            "0",
            "--storage",
            str(storage),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    return process, process.stdout.readline().strip()


def cpu_seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def settled(process: psutil.Process) -> None:
    """Return once it has read its experiments: it computes nothing for two seconds."""
    before = -1.0
    while (now := cpu_seconds(process)) - before > 0.05:
        before = now
        time.sleep(2)


def idle_share(process: psutil.Process) -> float:
    """The share of a core that it takes while nothing happens."""
    before = cpu_seconds(process)
    time.sleep(IDLE_S)
    return (cpu_seconds(process) - before) / IDLE_S


def busy_share(storage: Path, process: psutil.Process) -> float:
    """The share of a core that it takes while RUNNING experiments report about once a second."""
    with ExitStack() as running:
        journals = []
        for number in range(RUNNING):
            folder = storage / f"running-{number:02}"
            write_experiment(folder, 30)
            journal = Journal.open(folder)
            running.callback(journal.close)
            for event in list(events(30))[:-1]:
                journal.append(event.pop("event"), **event)
            journal.append(
                "trial_started", trial_id="00030", config={"lr": 0.1, "momentum": 0.5}
            )
            journals.append(journal)
        settled(process)
        before = cpu_seconds(process)
        for epoch in range(1, IDLE_S + 1):
            for journal in journals:
                metrics = dict.fromkeys(METRICS, 1 / epoch)
                journal.append("result", trial_id="00030", epoch=epoch, metrics=metrics)
                time.sleep(1 / RUNNING)
        return (cpu_seconds(process) - before) / IDLE_S


class Window:
    """A new window of Chromium."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage"):
            options.add_argument(f"--{flag}")
        self.driver = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver"))
        )

    def enter(self, url: str) -> None:
        """Be given the cookie."""
        self.driver.get(url)

    def times(self, url: str, mark: str) -> tuple[float, float]:
        """Seconds from the navigation to the first paint, and to the mark."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        self.driver.get(url)
        at = self.mark(mark)
        return self.driver.execute_script(_FIRST_PAINT) / 1000, at

    def mark(self, name: str, after: float = -1.0) -> float:
        """When the page has marked this for the first time after `after`, in seconds."""
        deadline = time.monotonic() + 60
        while (at := self.driver.execute_script(_MARK, name, 1000 * after)) is None:
            assert time.monotonic() < deadline, f"the page shows no {name}"
            time.sleep(0.05)
        return float(at) / 1000

    def act(self, script: str, *arguments: str) -> float:
        """Seconds from what the script does until the figures are drawn, and no more follow."""
        began = self.driver.execute_script(
            f"{script}; return performance.now()", *arguments
        )
        first = self.mark("figures", began / 1000)
        time.sleep(0.5)
        return first - began / 1000

    def memory_mib(self) -> float:
        """The largest of its processes that draw pages."""
        browser = psutil.Process(self.driver.service.process.pid)
        drawing = (
            p for p in browser.children(True) if "--type=renderer" in p.cmdline()
        )
        return max(float(p.memory_full_info().uss) for p in drawing) / 2**20

    def close(self) -> None:
        self.driver.quit()


def line(what: str, values: list[float], unit: str = "s") -> None:
    print(
        f"{what}: median {statistics.median(values):.2f} {unit}, from {min(values):.2f} to "
        f"{max(values):.2f}, n = {len(values)}",
        flush=True,
    )


def measure(storage: Path, runs: int) -> bool:
    """Print the figures; whether the bars are met."""
    process, url = start(storage)
    server = psutil.Process(process.pid)
    try:
        base = url.partition("?")[0]
        window = Window()
        began = time.monotonic()
        settled(server)
        print(f"all experiments read after {time.monotonic() - began:.0f} s at most")
        alone = idle_share(server)
        print(
            f"idle, no page: {alone:.2%} of a core over {IDLE_S} s, n = 1", flush=True
        )
        window.enter(url)
        lists = [window.times(base, "list") for _ in range(runs)]
        settled(server)
        watched = idle_share(server)
        print(
            f"idle, one page: {watched:.2%} of a core over {IDLE_S} s, n = 1",
            flush=True,
        )
        opened = [window.times(f"{base}#/{LARGE}", "trials") for _ in range(runs)]
        progress = [
            window.times(f"{base}#/{WATCHED}", "figures")[1] for _ in range(runs)
        ]
        # The advice, which is fetched once, is there by then
        window.act(_FILTER, "lr > 0.001")
        time.sleep(10)
        updates = [window.act(_FILTER, f"lr > 0.00{run + 2}") for run in range(runs)]
        tabs = [window.act(_CLICK, HYPERPARAMETERS)]
        memory = window.memory_mib()
        window.times(base, "list")
        busy = busy_share(storage, server)
        print(
            f"{RUNNING} running, one page: {busy:.2%} of a core over {IDLE_S} s",
            flush=True,
        )
        window.close()
        line("figures of progress", progress)
        line("figures of hyperparameters", tabs)
        line("an update", updates)
        print(f"memory of the page: {memory:.0f} MiB")
        line("first paint of the list", [paint for paint, _ in lists])
        line("rows of the list", [mark for _, mark in lists])
        line("first paint of the large one", [paint for paint, _ in opened])
        line("its trials", [mark for _, mark in opened])
        print(f"memory of the server: {server.memory_info().rss / 2**20:.0f} MiB")
    finally:
        process.terminate()
        process.communicate(timeout=60)
    painted = max(statistics.median(p for p, _ in some) for some in (lists, opened))
    is_drawn = (
        max(statistics.median(progress), *tabs) < BARS["figures"] and memory < MOST_MIB
    )
    is_quick = (
        painted < BARS["first paint"] and statistics.median(updates) < BARS["update"]
    )
    is_idle = max(alone, watched) < BARS["idle"] and busy < BARS["busy"]
    return is_idle and is_drawn and is_quick


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=500)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--watched", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("fastapi", "uvicorn"))
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}")
    print(
        f"{args.experiments} experiments of 30 trials, one of {args.trials}, and one of "
        f"{args.watched} of {EPOCHS} epochs"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_storage(Path(folder), args.experiments, args.trials, args.watched)
        return 0 if measure(Path(folder), args.runs) else 1


if __name__ == "__main__":
    sys.exit(main())
