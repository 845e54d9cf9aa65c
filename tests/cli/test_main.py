"""The command line: streams, exit codes, JSON, and messages as a user reads them."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Writer, make_folder

from tuner.cli import main as cli
from tuner.cli import searching
from tuner.errors import SpecError, UsageError
from tuner.record.folder import claim

COMMANDS = list(cli.cli.commands)
GENEROUS_CPU_S = 3.0
GOOD = {
    "training": {"model": "cnn", "dataset": "digits"},
    "search": {"space": {"lr": "loguniform(1e-3, 1)"}},
    "scheduler": {"max_t": 2},
    "num_samples": 4,
}

CONNECT = "tuner.cluster.connect.connect"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working directory whose results/ is the storage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def digits(here):
    """Four trials: the third is the best; one failed."""
    writer = Writer(make_folder(here / "results" / "digits"))
    for number, values in enumerate([[0.5], [0.6, 0.7], [0.9, 0.8]]):
        writer.trial(number, values, end="stopped" if number == 1 else "completed")
    writer.trial(3, [0.99], error=("nan", "'val_loss' is nan"))
    writer.checkpoint("00002", 1)
    writer.end()
    return writer.folder


def call(*arguments):
    """What a command returns or raises in this process."""
    return CliRunner().invoke(cli.cli, [str(a) for a in arguments], standalone_mode=False)


def tuner(*arguments, **options):
    """A real process of the command line."""
    command = [sys.executable, "-m", "tuner", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


def text_of(path, spec):
    Path(path).write_text(json.dumps(spec))
    return path


# Help and usage


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    done = CliRunner().invoke(cli.cli, [command, "--help"])
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == ""


def test_help_lists_every_command_whole_and_in_order():
    done = CliRunner().invoke(cli.cli, ["--help"])
    lines = done.stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == COMMANDS
    assert COMMANDS[0] == "run"
    assert not [line for line in lines if line.endswith("...")]


@pytest.mark.parametrize(
    "arguments", [["runn"], ["run"], ["best", "x", "--top", "0"], ["show", "x", "--nope"]]
)
def test_wrong_usage_is_exit_code_2(arguments):
    done = tuner(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


# Specs


def test_validate_shows_plan_and_spec_and_starts_nothing(here):
    code = (
        "import sys; from tuner.cli.main import cli\n"
        "cli.main(['validate', 'digits'], standalone_mode=False)\n"
        "print(sorted({'ray', 'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "digits would run"
    assert lines[-1] == "[]"
    assert not list(here.iterdir())


def test_validate_and_dry_run_as_json(here):
    shown = json.loads(call("validate", "digits", "--json").stdout)
    assert shown["spec"]["name"] == "digits"
    assert shown["trials"] == shown["spec"]["num_samples"]
    assert shown["a_trial_reserves"] == {"cpus": 1, "gpus": 0}
    assert json.loads(call("run", "digits", "--dry-run", "--json").stdout) == shown
    assert not list(here.iterdir())


def test_flags_and_assignments_set_the_spec():
    arguments = ["--num-samples", "3", "--max-concurrent", "2", "--time-budget", "10m", "--seed"]
    arguments += ["7", "--cpus", "0.5", "--name", "mine", "--storage", "elsewhere"]
    arguments += ["search.space.lr=uniform(0.1, 0.2)", "scheduler.max_t=3", "training.width=8"]
    done = call("validate", "digits", "--json", *arguments)
    spec = json.loads(done.stdout)["spec"]
    names = ("num_samples", "max_concurrent", "time_budget_s", "seed", "name", "storage")
    assert [spec[name] for name in names] == [3, 2, 600, 7, "mine", "elsewhere"]
    assert spec["resources"]["cpus"] == 0.5
    assert spec["search"]["space"]["lr"] == "uniform(0.1, 0.2)"
    assert (spec["scheduler"]["max_t"], spec["training"]["width"]) == (3, 8)


def test_another_search_over_the_same_space():
    spec = json.loads(call("validate", "digits", "--search", "grid", "--json").stdout)
    assert spec["spec"]["search"]["strategy"] == "grid"
    assert spec["trials"] == 3 * 3 * 3 * 4
    fewer = call("validate", "digits", "--search", "grid", "--num-samples", "5", "--json")
    assert json.loads(fewer.stdout)["trials"] == 5


def test_the_next_free_name_is_taken(digits):
    assert json.loads(call("validate", "digits", "--json").stdout)["spec"]["name"] == "digits-2"


def test_a_name_that_another_run_takes_meanwhile_is_passed_over(here, monkeypatch):
    tried = []

    def run(spec):
        tried.append(spec.name)
        claim(spec.folder, {"format": 1})
        if len(tried) == 1:
            claim(spec.folder, {"format": 1})  # the second of two

    monkeypatch.setattr(CONNECT, lambda address, spec: contextlib.nullcontext())
    monkeypatch.setattr("tuner.search.run.run_experiment", run)
    monkeypatch.setattr(searching, "finish", lambda results, **shown: 0)
    text_of("mine.yaml", GOOD)
    assert call("run", "mine.yaml").exit_code == 0
    assert tried == ["mine", "mine-2"]


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_name_that_exists_is_exit_code_2_and_points_to_resume(digits, command):
    for named in (["--name", "digits"], ["name=digits"]):
        done = tuner(command, "digits", *named)
        assert (done.returncode, done.stdout) == (2, "")
        assert "tuner resume digits" in done.stderr


def test_a_bad_spec_is_exit_code_2_with_every_fault_on_stderr(here):
    done = tuner("run", "digits", "num_samples=0", "serch=1", "--search", "bo", "--cpus", "9999")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has 4 faults:" in done.stderr
    assert "serch: unknown key 'serch' (did you mean 'search'?)" in done.stderr
    assert "search.strategy: unknown search 'bo'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(here.iterdir())


def test_a_bad_file_is_refused_in_little_time(here):
    import resource

    text_of("bad.yaml", {**GOOD, "num_samples": 0})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = tuner("run", "bad.yaml")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2
    assert f"{here / 'bad.yaml'} has 1 fault:\n  num_samples: " in done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < GENEROUS_CPU_S


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00", "{]"])
def test_a_file_that_is_no_mapping_is_refused(here, text):
    (here / "bad.yaml").write_text(text)
    done = tuner("validate", "bad.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "bad.yaml has 1 fault" in done.stderr


def test_an_unknown_experiment_is_told_with_the_nearest():
    done = tuner("run", "digitz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no experiment 'digitz' (did you mean 'digits'?)" in done.stderr


def test_an_assignment_without_a_value_is_told():
    assert "foo: must be KEY=VALUE, as in scheduler.max_t=30" in str(
        call("validate", "digits", "foo").exception
    )


class TestALargeGrid:
    """30 * 30 * 30 * 4 cells: more than 10,000, so that somebody has to agree."""

    grid = ("run", "digits", "--search", "grid", "search.points=30")

    @pytest.fixture(autouse=True)
    def begun(self, monkeypatch):
        """The specs that would be run."""
        begun = []
        monkeypatch.setattr(CONNECT, lambda *_, **__: contextlib.nullcontext())
        monkeypatch.setattr("tuner.search.run.run_experiment", begun.append)
        monkeypatch.setattr(searching, "finish", lambda results, **shown: 0)
        return begun

    def test_validate_says_how_many(self):
        plan = call("validate", *self.grid[1:]).stdout
        assert "Trials       108000, grid search" in plan

    def test_without_a_terminal_it_is_not_begun(self, here, begun):
        done = call(*self.grid)
        assert done.stderr == "grid: 108,000 trials\n"
        assert "asks for confirmation, and there is no terminal: give --yes," in str(done.exception)
        assert done.exception.exit_code == 2
        assert not begun
        assert not list(here.iterdir())

    def test_yes_or_fewer_trials_need_no_confirmation(self, begun):
        assert call(*self.grid, "--yes").exception is None
        assert call(*self.grid, "--num-samples", "10000").exception is None
        assert [spec.trials for spec in begun] == [108_000, 10_000]

    @pytest.mark.parametrize(("answer", "runs"), [("y", 1), ("n", 0), ("", 0)])
    def test_at_a_terminal_it_is_asked_about(self, monkeypatch, begun, answer, runs):
        asked = []
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(
            "click.termui.visible_prompt_func", lambda text: asked.append(text) or answer
        )
        with contextlib.nullcontext() if runs else pytest.raises(click.exceptions.Abort):
            cli.cli.main(list(self.grid), standalone_mode=False)
        assert len(begun) == runs
        assert asked == ["run all 108,000 trials? [y/N]: "]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = ("name", "storage", "search", "scheduler", "resources", "objective", "training", "seed")


@given(st.sampled_from(KEYS), anything)
def test_whatever_a_file_says_is_accepted_or_refused_in_words(key, value):
    from tuner.errors import TunerError

    text_of("any.json", {**GOOD, key: value})
    for flags in ([], ["--search", "grid"], ["--num-samples", "2"]):
        done = call("validate", "any.json", *flags)
        assert done.exception is None or isinstance(done.exception, TunerError)


# Reading results


def test_ls(digits):
    assert "digits" in call("ls").stdout
    [entry] = json.loads(call("ls", "--json").stdout)
    assert (entry["name"], entry["status"], entry["best"]) == ("digits", "completed", 0.9)


def test_ls_of_nothing(here):
    assert json.loads(call("ls", "--json").stdout) == []
    assert "start with: tuner run digits" in call("ls").stdout


def test_show(digits):
    shown = json.loads(call("show", "digits", "--json").stdout)
    assert set(shown) == {"name", "status", "counts", "best"}
    assert set(shown["counts"]) == {"completed", "stopped", "failed", "running", "interrupted"}
    assert shown["best"]["trial_id"] == "00002"
    assert "Best trial 00002, epoch 1 of 2" in call("show", "digits").stdout
    assert call("show", digits).stdout


def test_best(digits):
    best = json.loads(call("best", "digits", "--json").stdout)
    keys = {"trial_id", "config", "epoch", "metrics", "checkpoint", "shown"}
    assert set(best) >= keys
    assert (best["trial_id"], best["epoch"], best["shown"]) == ("00002", 1, "searched")
    assert Path(best["checkpoint"]).is_file()
    ranked = json.loads(call("best", "digits", "--top", "9", "--json").stdout)
    assert [trial["trial_id"] for trial in ranked] == ["00002", "00001", "00000"]
    assert json.loads(call("best", "digits", "--top", "1", "--json").stdout) == [best]
    worst = call("best", "digits", "--metric", "val_accuracy", "--mode", "min", "--json")
    assert json.loads(worst.stdout)["trial_id"] == "00000"
    assert call("best", "digits", "--top", "2").stdout.count("trial 0000") == 2


def test_an_unknown_metric_is_told_with_the_choices(digits):
    done = tuner("best", "digits", "--metric", "acc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown metric 'acc'" in done.stderr
    assert "available: val_accuracy" in done.stderr


def test_no_usable_trial_is_exit_code_1(here):
    writer = Writer(make_folder(here / "results" / "bad"))
    writer.trial(0, [], error=("nan", "m"))
    writer.end()
    done = tuner("best", "bad")
    assert (done.returncode, done.stdout) == (1, "")
    assert "bad has no usable trial: 1 failed (nan)" in done.stderr
    assert json.loads(call("show", "bad", "--json").stdout)["best"] is None


@pytest.mark.parametrize("command", ["show", "best", "evaluate", "resume", "tensorboard"])
def test_an_unknown_name_is_exit_code_2_with_the_nearest(digits, command):
    done = tuner(command, "digitz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'digits'?" in done.stderr


def test_export(digits, here):
    import torch

    from tuner.results.results import Results

    path = Results(digits).folder / "trials/00002/checkpoints/1/state.pt"
    torch.save({"model": {"w": torch.ones(2)}}, path)
    with Writer(digits, resumed=True).journal as journal:
        from tuner.record.digest import sha256_of

        name = path.relative_to(digits).as_posix()
        journal.append("checkpoint", trial_id="00002", epoch=1, path=name, sha256=sha256_of(path))
    done = call("export", "digits", "--to", "out")
    assert done.stdout == "out\n"
    assert (here / "out" / "model.safetensors").is_file()
    again = tuner("export", "digits", "--to", "out")
    assert again.returncode == 2
    assert "exists and is not an empty folder" in again.stderr


def test_an_exported_folder_is_evaluated_by_its_path(here):
    from handed import trained

    trained(here / "results" / "hand")
    assert call("export", "hand", "--to", "out").stdout == "out\n"
    ours = json.loads(call("evaluate", "hand", "--json").stdout)
    theirs = json.loads(call("evaluate", "out", "--json").stdout)
    assert ours == {**theirs, "shown": "searched"}
    assert "test_accuracy" in call("evaluate", "out").stdout
    wrong = call("evaluate", "out", "--trial", "0").exception
    assert isinstance(wrong, UsageError)
    assert str(wrong) == "--trial is for an experiment; out is one exported model"
    moved = call("evaluate", "out", "--data", "elsewhere").exception
    assert isinstance(moved, SpecError)
    assert "data_dir: is not used by dataset 'digits'" in str(moved)


def test_code_beside_an_export_is_not_run(here, monkeypatch):
    from handed import trained

    out = trained(here / "results" / "hand").export(here / "out")
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"trainable": "evil:L"}))
    (out / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(out)
    done = tuner("evaluate", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no code of an export is run" in done.stderr
    assert not (out / "ran").exists()


def test_an_experiment_of_the_name_comes_before_an_export_in_the_working_directory(here):
    from handed import trained

    trained(here / "results" / "hand").export(here / "hand")
    assert json.loads(call("evaluate", "hand", "--json").stdout)["shown"] == "searched"


def test_export_of_the_table_of_trials(digits, here):
    assert call("export", "digits", "--trials", "trials.csv").stdout == "trials.csv\n"
    assert len((here / "trials.csv").read_text().splitlines()) == 1 + 4
    assert call("export", "digits", "--trials", "trials.parquet").stdout == "trials.parquet\n"
    for lacking in ([], ["--trials", "trials.csv", "--trial", "2"]):
        wrong = call("export", "digits", *lacking)
        assert "export needs --to DIR" in str(wrong.exception)


def test_a_damaged_journal_is_exit_code_1(digits):
    (digits / "journal.jsonl").write_text("x\n{}\n")
    done = tuner("show", "digits")
    assert (done.returncode, done.stdout) == (1, "")
    assert "journal.jsonl, line 1: not a line of JSON" in done.stderr
    assert "damaged" in call("ls").stdout


def test_tensorboard_is_served_for_the_experiment(digits, monkeypatch):
    from tuner.reporting import tensorboard_server

    served = []
    monkeypatch.setattr(
        tensorboard_server, "serve", lambda folder, port: served.append((folder, port)) or 2
    )
    assert call("tensorboard", "digits", "--port", "7007").return_value == 2
    assert served == [(Path("results/digits"), 7007)]


def test_storage_is_the_flag_else_the_environment(digits, here, monkeypatch):
    assert json.loads(call("ls", "--storage", here / "nothing", "--json").stdout) == []
    monkeypatch.setenv("TUNER_STORAGE", str(here / "nothing"))
    assert json.loads(call("ls", "--json").stdout) == []
    assert len(json.loads(call("ls", "--storage", here / "results", "--json").stdout)) == 1


# Streams


@pytest.mark.parametrize(
    "arguments", [["ls"], ["show", "digits"], ["best", "digits"], ["validate", "digits"]]
)
def test_no_colour_without_a_terminal(digits, arguments):
    done = tuner(*arguments)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_a_reader_that_leaves_is_no_fault_of_ours(digits):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "tuner", "show", "digits"], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_an_interrupt_outside_of_a_search_is_exit_code_130(error, monkeypatch, capsys):
    def interrupted(**options):
        raise error

    monkeypatch.setattr(cli.cli, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "aborted\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from tuner.cli.main import cli\n"
        "try: cli.main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'ray', 'torch', 'pandas', 'numpy', 'pydantic', 'rich', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
