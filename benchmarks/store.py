"""How far an object store lags behind a search, and how long uploading a checkpoint takes.

    python -m benchmarks.store        about a minute; needs tuner[dev]

Starts an S3 server on this machine (moto) and runs a search whose trials sleep 0.3 s per epoch and
save after each one. Every 0.4 s it checks the age of the oldest line of the journal that the store
lacks. Then it uploads 765 kB, the size of a small model's checkpoint, 40 times. A real bucket adds
its network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import spread
from tuner.places import ROOT, local
from tuner.record.remote.objects import Objects
from tuner.record.remote.segments import fetch

TESTS = Path(__file__).resolve().parent.parent / "tests"
LOOK_S, TIMES, SIZE = 0.4, 40, 765_000


def behind(url: str, name: str, search: subprocess.Popen[bytes]) -> list[float]:
    """Seconds since the oldest line that the store lacks; 0 where it has all."""
    journal, objects = local(url) / name / "journal.jsonl", Objects(f"{url}/{name}")
    seconds = []
    while search.poll() is None:
        time.sleep(LOOK_S)
        if not journal.exists():
            continue
        here, now = journal.read_bytes(), time.time()
        lacks = here[fetch(objects).end :].partition(b"\n")
        seconds.append(now - json.loads(lacks[0])["time"] if lacks[1] else 0.0)
    return seconds


def puts(url: str, file: Path) -> list[float]:
    file.write_bytes(os.urandom(SIZE))
    objects, seconds = Objects(url), []
    for _ in range(TIMES):
        begin = time.perf_counter()
        objects.upload(file, "checkpoint")
        seconds.append(time.perf_counter() - begin)
    return seconds


def main() -> None:
    sys.path[:0] = [str(TESTS)]
    import stores

    server = stores.serve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ |= {**stores.environment(server), ROOT: str(folder / "mirrors")}
        stores.make_bucket()
        fields = {
            "trainable": "saving:Slow",
            "training": {"epochs": 40},
            "search": {"space": {"x": "uniform(0.1, 1)"}},
            "objective": {"metric": "loss"},
            "scheduler": "none",
            "num_samples": 4,
            "storage": stores.BUCKET,
        }
        (folder / "spec.json").write_text(json.dumps(fields))
        command = [sys.executable, "-m", "tuner", "run", str(folder / "spec.json"), "--name", "far"]
        search = subprocess.Popen(
            command,
            cwd=TESTS / "integration",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        late = behind(stores.BUCKET, "far", search)
        took = puts(f"{stores.BUCKET}/x", folder / "file")
    server.stop()
    print("seconds, min / median / max")
    print(f"  behind (n = {len(late)} looks): {spread(late)}")
    print(f"  a put of {SIZE} bytes (n = {TIMES}): {spread(took)}")


if __name__ == "__main__":
    main()
