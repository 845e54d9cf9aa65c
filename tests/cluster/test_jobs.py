"""Searches as jobs, with Ray's client played; a real cluster takes some in integration/."""

import socket

import pytest
from ray_client import FakeClient, details

from tuner.cluster import access, jobs
from tuner.errors import UsageError

URL = "http://head:8265"


def those(*told, **options):
    return jobs.Jobs(URL, FakeClient(*told, **options))


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        ("SUCCEEDED", 0, 0),
        ("FAILED", 3, 3),  # some trials failed
        ("FAILED", None, 1),  # it never started
        ("STOPPED", None, 143),
        ("STOPPED", -9, 143),
    ],
)
def test_the_exit_code_is_the_searchs(status, code, exit_code):
    assert those(details("a", status, code=code)).get("a").exit_code == exit_code


def test_other_jobs_of_the_cluster_are_not_told_and_the_newest_is_first():
    told = those(
        details("old", "SUCCEEDED", started=1000),
        details("other", "RUNNING", metadata={}),
        details("newer", "RUNNING", started=5000, ended=None),
        details("waits", "PENDING", started=None, ended=None),
    ).all()
    assert [job.job_id for job in told] == ["waits", "newer", "old"]
    assert (told[1].started, told[1].ended, told[1].command) == (5.0, None, "tuner run x")
    assert told[0].as_dict()["status"] == "PENDING"


def test_a_job_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(UsageError, match=r"no job 'ab' at .* \(did you mean 'abc'\?\); available"):
        those(details("abc", "RUNNING")).get("ab")
    with pytest.raises(UsageError, match="it has none"):
        those().log("a")


def test_what_is_submitted_runs_there_with_the_files_of_the_folder(tmp_path):
    (tmp_path / "mine.py").touch()
    client = FakeClient()
    arguments = ["run", "mine.yaml", "search.space.lr=uniform(0, 1)"]
    told = jobs.Jobs(URL, client)
    assert told.submit(arguments, directory=tmp_path, storage=tmp_path / "results") == "new"
    [asked] = client.asked
    assert asked["entrypoint"].endswith(
        ") -m tuner run mine.yaml 'search.space.lr=uniform(0, 1)' --address auto"
    )
    assert asked["runtime_env"]["working_dir"] == str(tmp_path)
    assert asked["runtime_env"]["excludes"] == ["/results/"]
    assert told.get("new").command == "tuner run mine.yaml search.space.lr=uniform(0, 1)"


def test_a_log_is_followed_to_the_jobs_end():
    said = []
    job = those(details("a", "SUCCEEDED", code=0)).follow("a", said.append)
    assert (said, job.status) == (["a\n", "b\n"], "SUCCEEDED")


def test_a_job_is_stopped_once_it_has_ended():
    running, stopped = details("a", "RUNNING", ended=None), details("a", "STOPPED")

    class Stopping(FakeClient):
        polls = iter([[running], [running], [stopped]])

        def list_jobs(self):
            return next(self.polls)

    client = Stopping()
    assert jobs.Jobs(URL, client, poll_s=0).stop("a").status == "STOPPED"
    assert client.asked == ["a"]


@pytest.mark.parametrize("address", ["head:6379", "ray://head:10001", "http://"])
def test_an_address_that_is_no_dashboards_is_refused(address):
    with pytest.raises(UsageError, match="takes the URL of the cluster's dashboard"):
        jobs.connected(address).__enter__()


class AuthenticationError(Exception):
    """Called as Ray's."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError(), "no dashboard of Ray answers at http://head:8265"),
        (TimeoutError(), "no dashboard"),
        (ImportError(), r"pip install -c constraints.txt 'tuner\[cluster\]'"),
        (RuntimeError("status code 500"), "refused: status code 500"),
        (AuthenticationError(), "http://head:8265 asks for a token, and none was shown"),
    ],
)
def test_what_fails_is_told_with_what_to_do(monkeypatch, tmp_path, error, told):
    for name in (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match=told), jobs.answering(URL):
        raise error


def test_where_nobody_listens_that_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UsageError, match=f"no dashboard of Ray answers at http://127.0.0.1:{port}"):
        jobs.connected(f"http://127.0.0.1:{port}").__enter__()


def test_a_file_is_sent_only_from_below_the_folder(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "far.yaml").touch()
    (inner / "near.yaml").touch()
    assert jobs.entry(str(inner / "near.yaml"), tmp_path) == "inner/near.yaml"
    assert jobs.entry("digits", tmp_path) == "digits"
    with pytest.raises(UsageError, match=r"far\.yaml is not below the working directory"):
        jobs.entry("../far.yaml", inner)
