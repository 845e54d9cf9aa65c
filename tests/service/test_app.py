"""The application as a whole."""

import re

import pytest
from served import HOST, Served


def test_the_page_is_of_its_files_alone(tmp_path):
    served = Served(tmp_path)
    page = served.ask("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    for path in re.findall(r'(?:href|src)="(/page[^"]*)"', page.text):
        assert served.ask("GET", path).status_code == 200
    assert not re.search(r"https?://", page.text)  # nothing of another server


def test_the_script_makes_no_element_from_text(tmp_path):
    script = Served(tmp_path).ask("GET", "/page.js").text
    parsed = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|DOMParser"
    assert not re.findall(parsed, script)


@pytest.mark.parametrize("path", ["/page/page.html", "/page.css/../app.py", "/%2e%2e/app.py"])
def test_no_other_file_is_served(tmp_path, path):
    assert Served(tmp_path).ask("GET", f"{HOST}{path}").status_code == 404


def test_the_verbs_of_ask_tell_are_asked_for_with_the_token(tmp_path):
    served = Served(tmp_path)
    asked = served.ask("POST", "/api/ask-tell/x/suggest", json={})
    assert asked.status_code == 404
    assert "no experiment 'x' in" in asked.json()["error"]
    described = served.ask("GET", "/api/openapi.json").json()["paths"]
    assert described["/api/ask-tell/{name}/suggest"]["post"]["summary"] == "Ask for a trial to run"
    bare = {"Authorization": ""}
    assert served.ask("POST", "/api/ask-tell/x/suggest", headers=bare).status_code == 401
