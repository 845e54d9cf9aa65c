"""The commands submit, jobs, logs and stop, of a cluster that is simulated."""

from contextlib import nullcontext

import pytest
from click.testing import CliRunner
from ray_client import FakeClient

from tuner.cli.main import cli
from tuner.cluster import jobs
from tuner.errors import UsageError

URL = "http://head:8265"
ALTERNATIVES = "give one of EXPERIMENT, --command TEXT, --like NAME and --resume NAME"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits"], "--storage /shared/results, got 'results'"),
        (["digits", "--resume", "x", "--storage", "/s"], "got 'digits' and 'x'"),
        (["--resume", "x", "--command", "train", "--storage", "/s"], ALTERNATIVES),
        (["digits", "--like", "x", "--storage", "/s"], "got 'digits' and 'x'"),
        (["--like", "x", "--resume", "x", "seed=3", "--storage", "/s"], ALTERNATIVES),
        (["digits", "--storage", "/s", "--cpus", "0"], "resources.cpus"),
    ],
)
def test_submit_of_a_bad_command_is_refused(monkeypatch, arguments, message):
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    done = CliRunner().invoke(cli, ["submit", *arguments, "--address", URL])
    assert isinstance(done.exception, UsageError | ValueError)
    assert message in str(done.exception)


@pytest.fixture
def sent(monkeypatch, tmp_path):
    """What a cluster runs for a `tuner submit`, and what the command has returned and printed."""
    client = FakeClient()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "open_jobs", lambda url: nullcontext(jobs.Jobs(url, client)))

    def submitted(*arguments):
        call = ["submit", *arguments, "--address", URL]
        done = CliRunner().invoke(cli, call, standalone_mode=False)
        assert (done.exception, done.stdout) == (None, "new\n")
        return client.calls[-1]["metadata"]["tuner_search"], done

    return submitted


def test_submit_passes_options_on(sent):
    options = ["--storage", "/s", "--search", "grid", "--cpus", "2", "--wait-for-resources", "5m"]
    command, done = sent("digits", "seed=3", *options)
    assert (done.return_value, done.stderr) == (0, "a\nb\n")
    sent_spec = 'search.strategy="grid" resources.cpus=2.0 seed=3 --storage=/s'
    assert command == f"run digits {sent_spec} --wait-for-resources=300s"


def test_submit_of_resume_or_like_names_the_experiment(sent):
    command, done = sent("--resume", "x", "--no-wait", "--storage", "/s")
    assert (command, done.stderr) == ("resume x --storage=/s", "")
    command, _ = sent("--resume", "x", "scheduler.max_t=9", "log=[]", "--storage", "/s")
    assert command == "resume x scheduler.max_t=9 log=[] --storage=/s"
    flags = [
        "--time-budget",
        "5m",
        "--notify",
        "slack://x",
        "--search",
        "grid",
        "--num-samples",
        "8",
    ]
    command, _ = sent("--resume", "x", *flags, "--storage", "/s")
    changes = 'search.strategy="grid" num_samples=8 time_budget_s=300.0'
    assert command == f"resume x {changes} --storage=/s --notify=slack://x"
    command, _ = sent("--like", "x", "--search", "bohb", "--seed", "2", "lr=1", "--storage", "/s")
    assert command == 'run --like x search.strategy="bohb" seed=2 lr=1 --storage=/s'


def test_submit_of_a_command_sends_it(sent, tmp_path):
    (tmp_path / "train.py").touch()
    (tmp_path / "small.yaml").write_text("num_samples: 2")
    command = ("--command", "python train.py {lr}", "--storage", "/s")
    space = "search.space.lr=uniform(0,1)"
    sent_spec = f"--command=python train.py {{lr}} {space}"
    text, _ = sent(space, *command, "num_samples=2")
    assert text == f"run {sent_spec} num_samples=2 --storage=/s"
    assert sent("small.yaml", space, *command)[0] == f"run small.yaml {sent_spec} --storage=/s"
    assert sent("--like", "x", *command)[0].startswith(
        "run --like x --command=python train.py {lr}"
    )


def test_jobs_logs_and_stop_of_a_job(cluster):
    assert '"job_id": "a"' in cluster("jobs", "--json").stdout
    assert cluster("jobs").stdout.splitlines()[1].startswith("a   failed")
    assert cluster("logs", "a").stdout == "a\nb\n"
    followed = cluster("logs", "a", "--follow")
    assert (followed.return_value, followed.stdout) == (1, "")
    assert followed.stderr == "a\nb\njob a failed: no room\n"
    text = cluster("stop", "a").stdout
    assert "go on with: tuner submit --resume NAME --address http://head:8265" in text
