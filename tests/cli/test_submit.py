"""tuner submit, with Ray's client played."""

import pytest
from click.testing import CliRunner
from ray_client import FakeClient

from tuner.cli.main import cli
from tuner.cluster import jobs
from tuner.errors import UsageError

URL = "http://head:8265"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["digits"], "--storage /shared/results, got 'results'"),
        (["--storage", "/s"], "give either EXPERIMENT or --resume NAME"),
        (["digits", "--resume", "x", "--storage", "/s"], "give either EXPERIMENT or --resume NAME"),
        (["digits", "--storage", "/s", "--cpus", "0"], "resources.cpus"),
    ],
)
def test_what_cannot_be_sent_is_refused_here(monkeypatch, arguments, told):
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    done = CliRunner().invoke(cli, ["submit", *arguments, "--address", URL])
    assert isinstance(done.exception, UsageError | ValueError)
    assert told in str(done.exception)


def test_what_was_asked_for_is_what_the_job_runs(monkeypatch, tmp_path):
    client = FakeClient()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "_reach", lambda *place: None)
    monkeypatch.setattr("ray.job_submission.JobSubmissionClient", lambda address: client)
    options = ["--storage", "/s", "--search", "grid", "--cpus", "2", "--wait-for-resources", "5m"]
    asked = ["submit", "digits", "seed=3", *options, "--address", URL]
    done = CliRunner().invoke(cli, asked, standalone_mode=False)
    assert (done.exception, done.return_value, done.stdout) == (None, 0, "new\n")
    assert done.stderr == "a\nb\n"
    assert client.asked[0]["metadata"]["tuner_search"] == (
        'run digits resources.cpus=2.0 storage="/s" seed=3 --search=grid --wait-for-resources=300s'
    )
    resumed = ["submit", "--resume", "x", "--no-wait", "--storage", "/s", "--address", URL]
    done = CliRunner().invoke(cli, resumed, standalone_mode=False)
    assert (done.exception, done.stdout, done.stderr) == (None, "new\n", "")
    assert client.asked[1]["metadata"]["tuner_search"] == "resume x --storage /s"
    CliRunner().invoke(cli, [*resumed, "scheduler.max_t=9", "log=[]"], standalone_mode=False)
    told = "resume x scheduler.max_t=9 log=[] --storage /s"
    assert client.asked[-1]["metadata"]["tuner_search"] == told


def test_a_url_is_a_storage_that_only_the_cluster_need_reach(monkeypatch, tmp_path):
    client = FakeClient()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "_reach", lambda *place: None)
    monkeypatch.setattr("ray.job_submission.JobSubmissionClient", lambda address: client)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for asked in (["digits"], ["--resume", "x"]):
        call = ["submit", *asked, "--storage", "s3://b/runs", "--no-wait", "--address", URL]
        done = CliRunner().invoke(cli, call, standalone_mode=False)
        assert (done.exception, done.stdout) == (None, "new\n")
    assert [job["metadata"]["tuner_search"] for job in client.asked] == [
        'run digits storage="s3://b/runs"',
        "resume x --storage s3://b/runs",
    ]
