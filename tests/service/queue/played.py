"""A `tuner run` and `tuner resume` that train nothing: they drive an experiment until told to end.

Each start is a line of the file `starts` in the storage. The file NAME.ends there says how the
driver of NAME ends: `completed`, `useless` (without a trial that is of use), `fails` or `dies`.
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
    this_owner,
)
from tuner.experiment.journal import Journal


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def train(journal):
    if not any(event["event"] == RESULT for event in journal.earlier()):
        journal.append(TRIAL_STARTED, trial_id="00000", config={})
        journal.append(RESULT, trial_id="00000", epoch=1, metrics={"val_accuracy": 0.5})
        journal.append(TRIAL_ENDED, trial_id="00000", status="completed")


def main():
    verb, storage = sys.argv[1], Path(option("--storage"))
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
        journal.append(EXPERIMENT_STARTED, resumed=verb == "resume", owner=this_owner())
        ends, ended = storage / f"{name}.ends", []
        signal.signal(signal.SIGTERM, lambda *_: ended.append(INTERRUPTED))
        while not ends.exists() and not ended:
            time.sleep(0.01)
        if ended:
            journal.append(EXPERIMENT_ENDED, status=INTERRUPTED)
            sys.exit(143)
        how = ends.read_text()
        if how == "dies":
            ends.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "completed":
            train(journal)
        journal.append(EXPERIMENT_ENDED, status="failed" if how == "fails" else "completed")
    return None if how == "completed" else "error: it failed"


if __name__ == "__main__":
    error = main()
    if error:
        print(error, file=sys.stderr)
    sys.exit((1 if "failed" in error else 2) if error else 0)
