"""Searches as jobs, with Ray's client played; a real cluster takes some in integration/."""

import socket

import pytest
from ray_client import FakeClient, details

from tuner.cluster import access, jobs
from tuner.errors import UsageError

URL = "http://head:8265"


def jobs_of(*listed, **options):
    return jobs.Jobs(URL, FakeClient(*listed, **options))


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
def test_exit_code_of_job(status, code, exit_code):
    assert jobs_of(details("a", status, code=code)).find_job("a").exit_code == exit_code


def test_all_lists_searches_newest_first():
    listed = jobs_of(
        details("old", "SUCCEEDED", started=1000),
        details("other", "RUNNING", metadata={}),
        details("newer", "RUNNING", started=5000, ended=None),
        details("waits", "PENDING", started=None, ended=None),
    ).list_jobs()
    assert [job.job_id for job in listed] == ["waits", "newer", "old"]
    assert (listed[1].started, listed[1].ended, listed[1].command) == (
        5.0,
        None,
        "tuner run x",
    )
    assert listed[0].status == "PENDING"


def test_get_of_unknown_job_lists_the_others(snapshot):
    with snapshot.raises(UsageError):
        jobs_of(details("abc", "RUNNING")).find_job("ab")
    with snapshot.raises(UsageError):
        jobs_of().read_log("a")


def test_submit_sends_command_and_folder(tmp_path):
    (tmp_path / "mine.py").touch()
    client = FakeClient()
    arguments = ["run", "mine.yaml", "search.space.lr=uniform(0, 1)"]
    listed = jobs.Jobs(URL, client)
    assert (
        listed.submit(arguments, directory=tmp_path, storage=tmp_path / "results")
        == "new"
    )
    [call] = client.calls
    assert call["entrypoint"].endswith(
        ") -m tuner run mine.yaml 'search.space.lr=uniform(0, 1)' --address auto"
    )
    assert call["runtime_env"]["working_dir"] == str(tmp_path)
    assert call["runtime_env"]["excludes"] == ["/results/"]
    assert (
        listed.find_job("new").command
        == "tuner run mine.yaml search.space.lr=uniform(0, 1)"
    )


def test_follow_passes_on_the_log():
    texts = []
    job = jobs_of(details("a", "SUCCEEDED", code=0)).follow_log("a", texts.append)
    assert (texts, job.status) == (["a\n", "b\n"], "SUCCEEDED")


def test_stop_waits_for_the_end():
    running = details("a", "RUNNING", ended=None)
    stopped = details("a", "STOPPED")

    class Stopping(FakeClient):
        polls = iter([[running], [running], [stopped]])

        def list_jobs(self):
            return next(self.polls)

    client = Stopping()
    assert jobs.Jobs(URL, client, poll_s=0).stop("a").status == "STOPPED"
    assert client.calls == ["a"]


@pytest.mark.parametrize("address", ["head:6379", "ray://head:10001", "http://"])
def test_connected_rejects_other_addresses(snapshot, address):
    with snapshot.raises(UsageError):
        jobs.open_jobs(address).__enter__()


class AuthenticationError(Exception):
    """Called as Ray's."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        ImportError(),
        RuntimeError("status code 500"),
        AuthenticationError(),
    ],
)
def test_answering_says_what_to_do(monkeypatch, tmp_path, error, snapshot):
    for name in (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with snapshot.raises(UsageError), jobs.translate_ray_errors(URL):
        raise error


def test_connected_without_a_listener_raises(snapshot):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with snapshot.raises(UsageError):
        jobs.open_jobs(f"http://127.0.0.1:{port}").__enter__()


@pytest.mark.parametrize(("port", "expected"), [(":8265", 8265), ("", 443)])
def test_the_dashboard_is_looked_for_at_its_port(monkeypatch, port, expected):
    addresses = []

    def refuse(address, timeout):
        addresses.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(jobs.socket, "create_connection", refuse)
    with pytest.raises(UsageError):
        jobs.open_jobs(f"https://127.0.0.1{port}").__enter__()
    assert addresses == [("127.0.0.1", expected)]


def test_entry_rejects_files_outside_the_folder(snapshot, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "far.yaml").touch()
    (inner / "near.yaml").touch()
    assert (
        jobs.relativize_experiment(str(inner / "near.yaml"), tmp_path)
        == "inner/near.yaml"
    )
    assert jobs.relativize_experiment("digits", tmp_path) == "digits"
    with snapshot.raises(UsageError):
        jobs.relativize_experiment("../far.yaml", inner)
