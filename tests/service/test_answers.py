"""What the server answers with."""

import json

from tuner.service.answers import Json, refusal


def test_an_answer_may_hold_what_utf_8_cannot():
    answer = Json({"name": "a\udcff", "é": None})
    assert answer.body == b'{"name":"a\\udcff","\\u00e9":null}'
    assert answer.headers["content-type"] == "application/json"


def test_a_refusal_says_why():
    why = "no experiment '\ud800'"
    answer = refusal(404, why)
    assert (answer.status_code, json.loads(answer.body)) == (404, {"error": why})
