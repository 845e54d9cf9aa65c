"""A `tuner run` and `tuner resume` that train nothing: they drive an experiment until told to end.

Each start is a line of the file `starts` in the storage. The file NAME.ends there says how the
driver of NAME ends: `completed`, `useless` (without a trial that is of use), `fails`, `dies`, or as
Ray's death ends a driver: `ray dies`, or `ray dies later`, once it has reported something.
"""

import os
import signal
import sys
import time
from pathlib import Path

from synthetic import make_folder

from tuner.errors import UsageError
from tuner.experiment.events import (
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    INTERRUPTED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
)
from tuner.experiment.journal import Journal
from tuner.experiment.owner import build_owner


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def report(journal):
    """Journal a trial that reports once and does not end; returns its id."""
    number = sum(event["event"] == TRIAL_STARTED for event in journal.read_earlier())
    trial_id = f"{number:05}"
    journal.append(TRIAL_STARTED, trial_id=trial_id, config={})
    journal.append(RESULT, trial_id=trial_id, epoch=1, metrics={"val_accuracy": 0.5})
    return trial_id


def train(journal):
    if not any(event["event"] == TRIAL_ENDED for event in journal.read_earlier()):
        trial_id = report(journal)
        journal.append(TRIAL_ENDED, trial_id=trial_id, status="completed")


def main():
    verb = sys.argv[1]
    storage = Path(option("--storage"))
    name = option("--name") if verb == "run" else sys.argv[2]
    folder = storage / name
    if verb == "run":
        try:
            make_folder(folder, max_concurrent=int(option("--max-concurrent")))
        except FileExistsError:
            return f"error: experiment {name} exists"
    try:
        journal = Journal.open(folder)
    except UsageError as error:
        return str(error)
    with journal, (storage / "starts").open("a") as starts:
        starts.write(f"{verb} {name} {option('--max-concurrent')}\n")
        starts.flush()
        journal.append(
            EXPERIMENT_STARTED, resumed=verb == "resume", owner=build_owner()
        )
        ends = storage / f"{name}.ends"
        ended = []
        signal.signal(signal.SIGTERM, lambda *_: ended.append(INTERRUPTED))
        while not ends.exists() and not ended:
            time.sleep(0.01)
        if ended:
            journal.append(EXPERIMENT_ENDED, status=INTERRUPTED)
            sys.exit(143)
        how = ends.read_text()
        if how.startswith("ray dies"):
            ends.unlink()
            if how == "ray dies later":
                report(journal)
            print(
                "error: Ray's raylet has died, and the search with it; go on with: a command"
            )
            sys.stdout.flush()
            os._exit(1)
        if how == "dies":
            ends.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "completed":
            train(journal)
        journal.append(
            EXPERIMENT_ENDED, status="failed" if how == "fails" else "completed"
        )
    return None if how == "completed" else "error: it failed"


if __name__ == "__main__":
    error = main()
    if error:
        print(error, file=sys.stderr)
    sys.exit((1 if "failed" in error else 2) if error else 0)
