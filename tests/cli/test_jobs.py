"""The commands submit, jobs, logs and stop, of a cluster that is simulated."""

from contextlib import nullcontext

import pytest
from commands import call, refusal
from ray_client import FakeClient

from tuner.cluster import jobs
from tuner.errors import UsageError

URL = "http://head:8265"


@pytest.mark.parametrize(
    "arguments",
    [
        ["digits"],
        ["digits", "--resume", "x", "--storage", "/s"],
        ["--resume", "x", "--command", "train", "--storage", "/s"],
        ["digits", "--like", "x", "--storage", "/s"],
        ["--like", "x", "--resume", "x", "seed=3", "--storage", "/s"],
        ["digits", "--storage", "/s", "--cpus", "0"],
    ],
    ids=" ".join,
)
def test_submit_of_a_bad_command_is_refused(snapshot, monkeypatch, arguments):
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    snapshot(
        refusal("submit", *arguments, "--address", URL, kind=UsageError | ValueError)
    )


@pytest.fixture
def sent(monkeypatch, tmp_path):
    """What a cluster runs for a `tuner submit`, and what the command has returned and printed."""
    client = FakeClient()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        jobs, "open_jobs", lambda url: nullcontext(jobs.Jobs(url, client))
    )

    def submitted(*arguments):
        done = call("submit", *arguments, "--storage", "/s", "--address", URL)
        assert (done.exception, done.stdout) == (None, "new\n")
        return client.calls[-1]["metadata"]["tuner_search"], done

    return submitted


def test_submit_passes_options_on(snapshot, sent):
    options = ["--search", "grid", "--cpus", "2", "--wait-for-resources", "5m"]
    command, done = sent("digits", "seed=3", *options)
    assert (done.return_value, done.stderr) == (0, "a\nb\n")
    snapshot(command)


def test_submit_of_resume_or_like_names_the_experiment(snapshot, sent):
    command, done = sent("--resume", "x", "--no-wait")
    assert (command, done.stderr) == ("resume x --storage=/s", "")
    flags = [
        "--time-budget=5m",
        "--notify=slack://x",
        "--search=grid",
        "--num-samples=8",
    ]
    for arguments in (
        ["--resume", "x", "scheduler.max_t=9", "log=[]"],
        ["--resume", "x", *flags],
        ["--like", "x", "--search", "bohb", "--seed", "2", "lr=1"],
    ):
        snapshot(sent(*arguments)[0])


def test_submit_of_a_command_sends_it(snapshot, sent, tmp_path):
    (tmp_path / "train.py").touch()
    (tmp_path / "small.yaml").write_text("num_samples: 2")
    command = ("--command", "python train.py {lr}")
    space = "search.space.lr=uniform(0,1)"
    for arguments in ([space, "num_samples=2"], ["small.yaml", space], ["--like", "x"]):
        snapshot(sent(*arguments, *command)[0])


def test_jobs_logs_and_stop_of_a_job(cluster):
    assert '"job_id": "a"' in cluster("jobs", "--json").stdout
    assert cluster("jobs").stdout.splitlines()[1].startswith("a   failed")
    assert cluster("logs", "a").stdout == "a\nb\n"
    followed = cluster("logs", "a", "--follow")
    assert (followed.return_value, followed.stdout) == (1, "")
    assert followed.stderr == "a\nb\njob a failed: no room\n"
    text = cluster("stop", "a").stdout
    assert "go on with: tuner submit --resume NAME --address http://head:8265" in text
