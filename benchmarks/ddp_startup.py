"""Compares the start of a trial with two reused workers to that of a trial with one worker.

    python -m benchmarks.ddp_startup            about 2 minutes on 2 CPUs or more
    python -m benchmarks.ddp_startup --quick    one short round: shows that it works, no more

The searches have trials of one epoch of the digits on a very small model, one trial at a time.
Searches with one worker and with two take turns on the same Ray. A start is the time from the end
of a trial to the first report of the next one in the same processes. It includes the driver's
answer, building the model, the optimizer and DistributedDataParallel, and one epoch of 2 steps. The
first trial of a search, which starts the processes, is counted separately. Exits with 1 if the
ratio of the medians misses the aim (not with --quick).
"""

import statistics
import sys
import tempfile

from benchmarks.figures import options, spread
from tuner.cluster import connect as cluster
from tuner.experiment.events import EXPERIMENT_STARTED, RESULT, TRIAL_ENDED
from tuner.experiment.reading import read
from tuner.search.run import run_experiment
from tuner.spec.experiment import build_spec

AIM = 1.2
WORKERS = (1, 2)


def starts(storage, name, workers, trials):
    """(seconds to the first report of the search, seconds of each later start)."""
    spec = {
        "name": name,
        "storage": storage,
        "training": {"norm": "group", "width": 2, "batch_size": 1024, "epochs": 1},
        "search": {"space": {"lr": "loguniform(1e-3, 1e-1)"}},
        "scheduler": "none",
        "resources": {"workers": workers},
        "num_samples": trials,
        "max_concurrent": 1,
    }
    results = run_experiment(build_spec(spec))
    if results.counts["completed"] != trials:
        raise SystemExit(f"not all trials completed: {results.counts}")
    times = {kind: [] for kind in (EXPERIMENT_STARTED, RESULT, TRIAL_ENDED)}
    for event in read(results.folder):
        if event["event"] in times:
            times[event["event"]].append(event["time"])
    first = times[RESULT][0] - times[EXPERIMENT_STARTED][0]
    later = [b - a for a, b in zip(times[TRIAL_ENDED], times[RESULT][1:], strict=False)]
    return first, later


def main():
    given = options(__doc__, rounds=5)
    rounds, trials = (1, 3) if given.quick else (given.rounds, 7)
    first, later = ({workers: [] for workers in WORKERS} for _ in range(2))
    with tempfile.TemporaryDirectory() as storage, cluster.connect():
        for number in range(rounds):
            for workers in WORKERS:
                cold, warm = starts(storage, f"{workers}-{number}", workers, trials)
                first[workers].append(cold)
                later[workers] += warm
    print("\nseconds, min / median / max")
    for workers in WORKERS:
        name = f"{workers} worker{'s' * (workers > 1)}"
        print(f"  {name}, first start of a search (n = {rounds}): {spread(first[workers])}")
        print(f"  {name}, later starts (n = {len(later[workers])}): {spread(later[workers])}")
    one, two = (statistics.median(later[workers]) for workers in WORKERS)
    print(
        f"  two workers' later starts: {two / one:.2f} of one's (aim {AIM}), {two - one:.3f} s more"
    )
    return 0 if given.quick or two / one <= AIM else 1


if __name__ == "__main__":
    sys.exit(main())
