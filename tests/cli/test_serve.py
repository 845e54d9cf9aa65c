"""tuner serve."""

import sys

import pytest
from commands import call

import tuner.serve
from tuner.errors import UsageError
from tuner.serve import server


def test_it_is_served_with_what_was_asked_for(here, monkeypatch):
    asked = []

    def serve(storage, *, tell, **options):
        asked.append((storage, options))
        tell("http://127.0.0.1:8642/?token=x", 8642)

    monkeypatch.setattr(server, "serve", serve)
    done = call("serve", "--storage", here, "--keep-token")
    assert done.return_value == 0
    assert done.stdout == "http://127.0.0.1:8642/?token=x\n"
    assert "ssh -L 8642:127.0.0.1:8642 " in done.stderr
    pair = {"cert": None, "key": None, "is_insecure": False, "is_token_kept": True}
    assert asked == [(str(here), {"host": "127.0.0.1", "port": 8642, **pair})]


def test_a_host_for_others_is_refused_before_anything_is_served(here):
    done = call("serve", "--host", "0.0.0.0")
    assert isinstance(done.exception, UsageError)
    assert "--insecure" in str(done.exception)


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_its_packages_it_says_how_to_get_them(here, monkeypatch, package):
    monkeypatch.setattr(tuner, "serve", tuner.serve)  # put back after what is imported below
    for name in [name for name in sys.modules if name.startswith(("tuner.serve", package))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = call("serve")
    assert isinstance(done.exception, UsageError)
    assert "pip install 'tuner[serve]'" in str(done.exception)
