"""A driver that brings a data set to a cluster's nodes and to one that joins, and has each read it.

    python supplied.py HEAD ARCHIVE NODES

ARCHIVE: fields of the source, as JSON. NODES: how many are to join. Prints what each node has read.
"""

import hashlib
import json
import sys
import time
from contextlib import redirect_stderr
from dataclasses import replace

from tuner.cluster import connect as cluster
from tuner.cluster import preflight
from tuner.cluster.capacity import Room
from tuner.cluster.nodes import list_nodes
from tuner.cluster.tasks import run_on_each
from tuner.spec.sections import Resources
from tuner.vision.datasets._dataset import resolve_data_folder
from tuner.vision.datasets.cifar10 import ARCHIVE, OFFICIAL, load
from tuner.vision.declaration import NeededData


def read(need):
    """On a node: whether the archive is in its folder, and a digest of its images."""
    folder = resolve_data_folder(need.data_dir)
    images_NHWC = load(folder, split_seed=0, source=need.archive).images_NHWC
    return (folder / ARCHIVE).is_file(), hashlib.sha256(images_NHWC).hexdigest()


def main(head, fields, joining):
    need = NeededData(replace(OFFICIAL, **json.loads(fields)), None)
    with cluster.connect(head):
        there = list_nodes()
        with redirect_stderr(sys.stdout):
            preflight.distribute_data(
                there, need, driver=cluster.Cluster().find_driver()
            )
        room = Room(
            Resources(),
            nodes=list_nodes,
            on_join=lambda new, others: preflight.send_to_new(new, others, need),
        )
        room()
        print("ready", flush=True)
        while int(joining) and len(list_nodes()) < len(there) + int(joining):
            time.sleep(0.1)
            room()
        training = [node for node in list_nodes() if node.cpus]
        while int(joining) and not all(
            reply.value[0]
            for reply in run_on_each(training, preflight.run_method, need, "state")
        ):
            time.sleep(0.1)
            room()
        print(json.dumps([reply.value for reply in run_on_each(training, read, need)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
