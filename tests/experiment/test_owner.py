import os
import socket
import subprocess

from tuner.experiment.owner import owner_in_words, this_owner, this_user


def test_a_live_owner_is_named():
    told = owner_in_words(this_owner())
    assert told.startswith(f"another driver: pid {os.getpid()} on {socket.gethostname()}, since 20")


def test_a_dead_one_cannot_be_who_holds_the_lock():
    dead = subprocess.Popen(["true"])
    dead.wait()
    for pid in (dead.pid, 10**30):
        told = owner_in_words(this_owner() | {"pid": pid})
        assert told == owner_in_words(None) == "another driver that has just started"


def test_a_user_whom_the_system_does_not_know_has_no_name(monkeypatch):
    monkeypatch.setenv("LOGNAME", "ada")
    assert this_user() == "ada"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert this_user() is None
