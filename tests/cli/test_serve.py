"""tuner serve."""

from commands import call

from tuner.errors import UsageError
from tuner.service import server


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
