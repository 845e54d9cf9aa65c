"""tuner doctor: what was examined, and an exit code that says whether a search would work."""

import json
from dataclasses import asdict

import pytest
from commands import call

from tuner.reporting.doctor import Finding

FINE = Finding("machine", "memory", "8 GiB")
BROKEN = Finding("storage", "space", "none", "broken", "make room")


@pytest.mark.parametrize(("findings", "code"), [([FINE], 0), ([FINE, BROKEN], 1)])
def test_doctor_exit_code_is_1_if_broken(monkeypatch, findings, code):
    monkeypatch.setattr("tuner.reporting.doctor.examine", lambda storage, address: findings)
    done = call("doctor")
    assert done.return_value == code
    assert all(finding.found in done.stdout for finding in findings)
    shown = json.loads(call("doctor", "--json").stdout)
    assert shown == {"ok": not code, "findings": [asdict(finding) for finding in findings]}
