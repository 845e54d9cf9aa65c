"""How far an object store lags behind a search, and how long uploading a checkpoint takes.

    python -m benchmarks.store                  about a minute; needs tuner[dev]
    python -m benchmarks.store --sent 4320      how many bytes a long search sends for its journal

Starts an S3 server on this machine (moto) and runs a search whose trials sleep 0.3 s per epoch and
save after each one. Every 0.4 s it checks the age of the oldest line of the journal that the store
lacks. Then it uploads 765 kB, the size of a small model's checkpoint, 40 times. A real bucket adds
its network.

With --sent no search runs: a journal grows by 3.6 kB so many times, and is uploaded each time, as a
driver does once a second. The server counts the bytes of all requests' bodies.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import spread
from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import Uploader, fetch, listed
from tuner.places import ROOT, local

TESTS = Path(__file__).resolve().parent.parent / "tests"
LOOK_S, TIMES, SIZE = 0.4, 40, 765_000
LINES = b"x" * 359 + b"\n"  # of a journal; ten a second


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


def sent(url: str, path: Path, seconds: int, requests: list[int]) -> None:
    """Upload a journal that grows for so many seconds; prints what `requests`, of bytes, were."""
    path.touch()
    objects = Objects(url)
    uploader = Uploader(objects, path, 1)
    requests.clear()
    with path.open("ab") as journal:
        for _ in range(seconds):
            journal.write(10 * LINES)
            journal.flush()
            uploader.upload()
    size, here = path.stat().st_size, len(requests)
    assert fetch(objects).data == path.read_bytes()
    print(f"{seconds} s, {size / 1e6:.1f} MB journaled, {len(listed(objects))} objects in the end")
    print(f"  bytes sent per byte journaled: {sum(requests[:here]) / size:.2f}")
    print(f"  requests a second: {here / seconds:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sent", type=int, metavar="SECONDS")
    options = parser.parse_args()
    sys.path[:0] = [str(TESTS)]
    import stores

    requests: list[int] = []  # bytes of the bodies
    server = stores.serve(seen=lambda request: requests.append(body_size(request)))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ |= {**stores.environment(server), ROOT: str(folder / "mirrors")}
        stores.make_bucket()
        if options.sent:
            sent(f"{stores.BUCKET}/long", folder / "journal.jsonl", options.sent, requests)
        else:
            lag_and_puts(folder, stores.BUCKET)
    server.stop()


def body_size(request: dict[str, str]) -> int:
    """Of a request as WSGI gives it."""
    return int(request.get("CONTENT_LENGTH") or 0)


def lag_and_puts(folder: Path, bucket: str) -> None:
    """Run the search, upload the file, and print how long each took."""
    fields = {
        "trainable": "saving:Slow",
        "training": {"epochs": 40},
        "search": {"space": {"x": "uniform(0.1, 1)"}},
        "objective": {"metric": "loss"},
        "scheduler": "none",
        "num_samples": 4,
        "storage": bucket,
    }
    (folder / "spec.json").write_text(json.dumps(fields))
    command = [sys.executable, "-m", "tuner", "run", str(folder / "spec.json"), "--name", "far"]
    search = subprocess.Popen(
        command,
        cwd=TESTS / "integration",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    late = behind(bucket, "far", search)
    took = puts(f"{bucket}/x", folder / "file")
    print("seconds, min / median / max")
    print(f"  behind (n = {len(late)} looks): {spread(late)}")
    print(f"  a put of {SIZE} bytes (n = {TIMES}): {spread(took)}")


if __name__ == "__main__":
    main()
