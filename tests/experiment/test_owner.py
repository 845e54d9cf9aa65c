import os
import socket
import subprocess

from tuner.experiment.owner import owner_in_words, this_owner


def test_owner_in_words_names_a_live_process():
    words = owner_in_words(this_owner())
    assert words.startswith(
        f"another driver: pid {os.getpid()} on {socket.gethostname()}, since 20"
    )


def test_owner_in_words_of_a_dead_process():
    dead = subprocess.Popen(["true"])
    dead.wait()
    for pid in (dead.pid, 10**30):
        words = owner_in_words(this_owner() | {"pid": pid})
        assert words == owner_in_words(None) == "another driver that has just started"
