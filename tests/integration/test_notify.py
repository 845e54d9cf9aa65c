"""A real search that notifies a command of its end, by a signal and after a resume."""

import json
import signal
import subprocess

import driven
import pytest
from gated import LIMIT_S, at_the_gate, open_gate, spec, wait_for


def messages(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_whatever_ends_a_search_is_told_and_a_resume_tells_the_same(tmp_path, ray_here):
    told = tmp_path / "told.jsonl"
    notify = [f"exec:cat >> {told}; echo >> {told}", "http://127.0.0.1:9/s3cret"]
    fields = {"max_concurrent": 2, "num_samples": 3, "scheduler": "none", "notify": notify}
    (tmp_path / "gated.json").write_text(json.dumps(spec(tmp_path, **fields)))
    process = driven.start(*("run", "gated.json"), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(at_the_gate(tmp_path), process)
    process.send_signal(signal.SIGTERM)
    open_gate(tmp_path)
    _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert stderr.count("cannot notify http://127.0.0.1:9/***") == 1
    assert "s3cret" not in stderr
    [end] = messages(told)
    assert (end["event"], end["status"]) == ("end", "interrupted")
    folder = tmp_path / "results" / "gated"
    assert b"s3cret" not in (folder / "experiment.json").read_bytes()

    done = driven.call("resume", folder)
    assert done.return_value == 0
    assert "http://127.0.0.1:9/*** is not notified" in done.stderr
    *_, end = messages(told)
    assert (end["event"], end["status"]) == ("end", "completed")
    assert end["counts"] == {"completed": 3}
