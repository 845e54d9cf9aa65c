"""A runner as a process of its own, for tests that kill it: STORAGE, searches at once."""

import sys
from pathlib import Path

from tuner.service.queue.entries import Queue
from tuner.service.queue.runner import Runner, Terms
from tuner.service.queue.shares import Room

PLAYED = (sys.executable, str(Path(__file__).with_name("played.py")))

if __name__ == "__main__":
    terms = Terms(int(sys.argv[2]), {}, command=PLAYED, every_s=0.02)
    Runner(Queue(sys.argv[1]), terms, capacity=lambda gpus: Room(4), notify=print).run()
