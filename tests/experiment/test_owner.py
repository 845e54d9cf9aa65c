import subprocess

from tuner.experiment.owner import build_owner, format_owner


def test_owner_in_words_of_a_dead_process():
    dead = subprocess.Popen(["true"])
    dead.wait()
    for pid in (dead.pid, 10**30):
        words = format_owner(build_owner() | {"pid": pid})
        assert words == format_owner(None) == "another driver that has just started"
