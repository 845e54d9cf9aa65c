"""Real nodes with a data folder each, and the source of a data set, which counts who asks it."""

import json
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import real_nodes
from cifar10_archives import write_archive

from tuner.vision.datasets.cifar10 import ARCHIVE

pytestmark = pytest.mark.nodes

PATIENCE_S = 120
COUNT = 1000  # images of a file: 18 MB in all, which is several chunks


@pytest.fixture(scope="module")
def cluster():
    """Three nodes that train, each with a data folder of its own."""
    with real_nodes.cluster() as made:
        for number in (1, 2, 3):
            made.start(number, data=made.folder / f"data{number}")
            made.await_nodes(number)
        yield made


@contextmanager
def served(folder, address):
    """The URL of `folder`, and the requests that came."""
    requests = []

    class Counting(SimpleHTTPRequestHandler):
        def log_request(self, *told):
            requests.append(self.path)

    server = ThreadingHTTPServer((address, 0), partial(Counting, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{address}:{server.server_port}", requests
    finally:
        server.shutdown()


def driver(cluster, source, url, *, data, joining=0):
    """A process that brings the archive to all, if it can be from a machine that is no node.

    What it prints is read line by line.
    """
    fields = {"md5": source.md5, "images_a_file": COUNT, "url": f"{url}/{ARCHIVE}"}
    script = Path(__file__).parent / "supplied.py"
    return subprocess.Popen(
        [
            *(cluster.outside() if cluster.namespaces else ()),
            sys.executable,
            script,
            cluster.head,
            json.dumps(fields),
            str(joining),
        ],
        env={**cluster.foreign, **cluster.environment, "TUNER_DATA": str(data)},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process):
    """Its lines up to `ready`."""
    lines = []
    for line in process.stdout:
        if line.strip() == "ready":
            return lines
        lines.append(line.strip())
    pytest.fail(f"it ended with {process.wait()} after {lines}")


def test_one_node_downloads_it_and_the_others_and_a_later_one_get_it_from_nodes(cluster, tmp_path):
    source = write_archive(tmp_path / "remote" / ARCHIVE, count=COUNT)
    with served(tmp_path / "remote", cluster.here) as (url, requests):
        process = driver(cluster, source, url, data=tmp_path / "mine", joining=1)
        lines = said(process)
        assert len(lines) == 2, lines
        assert lines[0].startswith("CIFAR-10 is on no node: ")
        assert lines[1].endswith(" to 2 nodes that lack it")
        cluster.start(4, data=cluster.folder / "data4")
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        [(kept, digest), *others] = json.loads(out)
        assert kept
        assert others == [[True, digest]] * 3
        assert requests == [f"/{ARCHIVE}"]
        assert not (tmp_path / "mine" / ARCHIVE).exists()
        again = driver(cluster, source, url, data=tmp_path / "mine")
        assert said(again) == []
        assert again.wait(PATIENCE_S) == 0
        assert len(requests) == 1


def test_the_drivers_machine_gives_what_it_has(cluster, tmp_path):
    if not cluster.namespaces:
        pytest.skip("the driver is on a machine of its own only in a network namespace")
    for folder in cluster.folder.glob("data*"):
        for path in folder.glob("cifar*"):
            subprocess.run(["rm", "-r", path], check=True)
    source = write_archive(tmp_path / ARCHIVE, count=COUNT)
    process = driver(cluster, source, "http://127.0.0.1:9", data=tmp_path)  # nobody listens
    [line] = said(process)
    assert line.startswith("CIFAR-10 is copied from ")
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert [kept for kept, _ in json.loads(out)] == [True] * len(cluster.nodes)
