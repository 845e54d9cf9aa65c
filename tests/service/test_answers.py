"""The JSON answers of the server."""

import json

from tuner.service.answers import build_refusal


def test_json_encodes_lone_surrogates():
    answer = build_refusal(404, "no experiment '\ud800'")
    assert (answer.status_code, json.loads(answer.body)) == (
        404,
        {"error": "no experiment '\ud800'"},
    )
    assert answer.headers["content-type"] == "application/json"
