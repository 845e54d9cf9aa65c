"""A runner as a process of its own, for tests that end it: STORAGE, searches at once."""

import sys
from functools import partial
from pathlib import Path

from tuner.service.queue.entries import Queue
from tuner.service.queue.runner import Runner, Terms
from tuner.service.queue.shares import Room
from tuner.signals import raise_interrupts

PLAYED = (sys.executable, str(Path(__file__).with_name("played.py")))

if __name__ == "__main__":
    terms = Terms(int(sys.argv[2]), {}, command=PLAYED, every_s=0.02)
    runner = Runner(
        Queue(sys.argv[1]),
        terms,
        capacity=lambda gpus: Room(4),
        notify=partial(print, flush=True),
    )
    with raise_interrupts():
        runner.run()
