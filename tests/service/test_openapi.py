"""The description of the endpoints."""

import re

from jsonschema import Draft202012Validator
from served import Served
from starlette.routing import Mount, Route


def described(tmp_path):
    return Served(tmp_path).ask("GET", "/api/openapi.json").json()


def routes_of(routes, before=""):
    for route in routes:
        if isinstance(route, Mount):
            yield from routes_of(route.routes, before + route.path)
        elif isinstance(route, Route):
            for method in route.methods - {"HEAD"}:
                yield re.sub(r":\w+}", "}", before + route.path), method.lower()


def test_its_paths_are_the_routes(tmp_path):
    served = Served(tmp_path)
    found = {one for one in routes_of(served.app.routes) if one[0].startswith("/api")}
    document = described(tmp_path)
    own = ("/api/openapi.json", "get")  # which describes the others
    assert found - {own} == {
        (path, method) for path, operations in document["paths"].items() for method in operations
    }
    assert ("/api/events", "get") in found


def test_every_operation_says_what_it_is_and_names_its_parameters(tmp_path):
    for path, operations in described(tmp_path)["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            named = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
            assert named == re.findall(r"{(\w+)}", path)


def test_every_schema_is_one_and_every_reference_leads_to_one(tmp_path):
    document = described(tmp_path)
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= set(schemas)
    assert {"StopTrial", "Pause", "Finish", "Listed"} <= set(schemas)
