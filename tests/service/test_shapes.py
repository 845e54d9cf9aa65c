"""Answers have the shapes that their endpoints declare."""

from jsonschema import Draft202012Validator
from served import Served
from stories import odd, search
from synthetic import Writer, make_folder

from tuner.service.api import router


def test_answers_match_the_declared_shapes(tmp_path):
    search(tmp_path / "digits", 12)
    odd(tmp_path / "failed", "all_failed")
    space = {"strategy": "random", "space": {"lr": "loguniform(0.0001, 1)"}}
    running = Writer(make_folder(tmp_path / "running", search=space))
    running.trial(0, [0.5], end=None)
    served = Served(tmp_path)
    document = served.ask("GET", "/api/openapi.json").json()
    asked = 0
    for route in router.routes:
        if "GET" not in route.methods or route.response_model is None:
            continue
        for name in ("digits", "failed", "running"):
            path = route.path.format(name=name, trial_id="0")
            answer = served.ask("GET", path)
            if answer.status_code == 409:  # there is no best one
                continue
            assert answer.status_code == 200, answer.text
            described = document["paths"][route.path]["get"]["responses"]["200"]
            schema = described["content"]["application/json"]["schema"]
            Draft202012Validator({**schema, "components": document["components"]}).validate(
                answer.json()
            )
            asked += 1
    assert asked > 15
    running.kill()
