"""A driver that brings a data set to a cluster's nodes and to one that joins, and has each read it.

    python supplied.py HEAD ARCHIVE NODES

ARCHIVE: fields of the source, as JSON. NODES: how many are to join. Prints what each node has read.
"""

import hashlib
import json
import sys
import time
from dataclasses import replace

from tuner.classifier.datasets.cifar10 import ARCHIVE, OFFICIAL, load
from tuner.cluster import connect as cluster
from tuner.cluster.joined import autoscaling as growth
from tuner.cluster.joined import datasets as supply
from tuner.cluster.joined.nodes import nodes
from tuner.cluster.joined.run_on_nodes import on_each
from tuner.spec.experiment import Resources


def read(need):
    """On a node: whether the archive is in its folder, and a digest of its images."""
    images_NHWC = load(need.folder, split_seed=0, source=need.archive).images_NHWC
    return (need.folder / ARCHIVE).is_file(), hashlib.sha256(images_NHWC).hexdigest()


def main(head, fields, joining):
    need = supply.Need(replace(OFFICIAL, **json.loads(fields)), None)
    with cluster.connect(head):
        there = nodes()
        supply.bring(there, need, here=cluster._node_id(), say=lambda text: print(text, flush=True))
        room = growth.Room(
            Resources(),
            most=None,
            grows=False,
            greet=lambda new, others: supply.greet(new, others, need),
        )
        room()
        print("ready", flush=True)
        while len(nodes()) < len(there) + int(joining):
            time.sleep(0.1)
            room()
        training = [node for node in nodes() if node.cpus]
        while int(joining) and any(not r.value[0] for r in on_each(training, supply.look, need)):
            time.sleep(0.1)
            room()
        print(json.dumps([reply.value for reply in on_each(training, read, need)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
