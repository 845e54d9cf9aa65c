"""How an autoscaler is noticed."""

import subprocess
import sys

from tuner.cluster.autoscaler import has_autoscaler


def test_has_autoscaler_by_process_or_kuberay(monkeypatch):
    monkeypatch.delenv("KUBERAY_GEN_RAY_START_CMD", raising=False)
    for argument, known in (
        ("--logs-dir=/x", False),
        ("--autoscaling-config=/x.yaml", True),
    ):
        code = "import sys; print(flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", code, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as monitor:
            monitor.stdout.readline()
            assert has_autoscaler() is known
            monitor.stdin.close()
    assert not has_autoscaler()
    monkeypatch.setenv("KUBERAY_GEN_RAY_START_CMD", "ray start --head --no-monitor ")
    assert has_autoscaler()
