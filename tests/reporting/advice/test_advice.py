"""All findings on a search."""

import json
import shlex

import pytest
from recorded import around, losses, record
from stories import ODD, odd, search

from tuner.reporting.advice import advise, describe_findings
from tuner.reporting.advice.finding import SEVERITIES


def test_advice_has_answers_first_and_then_the_most_urgent():
    made = record(
        lambda u_D, rng: losses(float("nan") if u_D[1] > 0.6 else u_D[0]), 100
    )
    findings = advise(made, ask=["momentum"])
    assert findings[0].kind == "isolation"
    ranks = [SEVERITIES.index(finding.severity) for finding in findings[1:]]
    assert ranks == sorted(ranks)
    assert {"diverged", "edge"} <= {finding.kind for finding in findings}


def test_advice_on_a_sound_search_says_so():
    made = record(around(0.5, 0.5), 100, scheduler="none")
    assert repr(advise(made)).startswith("Nothing to advise")


@pytest.mark.parametrize("kind", ODD)
def test_advice_on_an_odd_search_is_plain_json(kind, tmp_path):
    findings = advise(odd(tmp_path / "x", kind))
    document = json.loads(json.dumps(describe_findings(findings), allow_nan=False))
    for finding in document["findings"]:
        assert finding["evidence"]["seen"]
        assert shlex.split(finding["action"]["command"])[0] == "tuner"
    assert not findings or repr(findings).count("  $ tuner") == len(findings)


def test_advice_repeats_itself(tmp_path):
    results = search(tmp_path / "x", 60)
    once, again = (describe_findings(advise(results)) for _ in range(2))
    assert once == again
