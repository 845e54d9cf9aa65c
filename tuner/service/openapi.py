"""The endpoints in OpenAPI's words, made from the routes themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter
from starlette.routing import BaseRoute, Mount, Route

from tuner.errors import FAILURE_KINDS
from tuner.experiment.control import Control
from tuner.experiment.events import COUNTED
from tuner.service.api import ENDPOINTS, Endpoint
from tuner.service.ask_tell import PLACE as ASK_TELL

Schema = dict[str, Any]
_REF = "#/components/schemas/"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_NUMBERS = ("top", "limit", "offset")


def description(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI document of all `routes` below /api, those mounted there too."""
    paths: dict[str, Any] = {}
    for path, method, route in _operations(routes):
        if path.startswith("/api"):
            shown = _PARAMETER.sub(r"{\1}", path)
            paths.setdefault(shown, {})[method.lower()] = _operation(route, path, method)
    return {
        "openapi": "3.1.0",
        "info": {"title": "tuner serve", "version": version("tuner")},
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": {**_SCHEMAS, **_control()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "tuner_PORT"},
            },
        },
    }


def _operations(routes: Sequence[BaseRoute], before: str = "") -> Iterator[tuple[str, str, Route]]:
    for route in routes:
        if isinstance(route, Mount):
            yield from _operations(route.routes, before + route.path)
        elif isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield before + route.path, method, route


def _operation(route: Route, path: str, method: str) -> dict[str, Any]:
    told = " ".join((inspect.getdoc(route.endpoint) or "").split())
    query, taken, answers = _shapes(path, method)
    is_needed = "$ref" in taken or bool(taken.get("required"))
    body = {"required": is_needed, "content": {"application/json": {"schema": taken}}}
    return {
        "summary": told.partition(". ")[0].rstrip("."),
        "description": told,
        "parameters": [
            *(_parameter(name, "path", "") for name in _PARAMETER.findall(route.path)),
            *(_parameter(name, "query", what) for name, what in query.items()),
        ],
        **({"requestBody": body} if taken else {}),
        "responses": {**answers, "default": _content("what is wrong", _ref("Error"))},
    }


def _shapes(path: str, method: str) -> tuple[Mapping[str, str], Schema, dict[str, Any]]:
    """The query of an operation, what it takes as its body, {} for none, and its answers."""
    if path.startswith(ASK_TELL):
        taken, given = _VERBS[path.removeprefix(ASK_TELL)]
        statuses = ("200", "201") if path == f"{ASK_TELL}/" else ("200",)  # 201: it was made
        answers = {status: _content("done", given) for status in statuses}
        answers["503"] = _CLOSED
        return {}, {} if method == "GET" else taken, answers
    endpoint = next((e for e in ENDPOINTS if (e.path, e.method) == (path, method)), None)
    if endpoint is None:
        return {}, {}, {"200": {"description": "done"}}
    return endpoint.query, _ref(endpoint.body) if endpoint.body else {}, _answers(endpoint)


def _answers(endpoint: Endpoint) -> dict[str, Any]:
    status = "200" if endpoint.method == "GET" else "202"
    if "/" in endpoint.answer:
        kind = {"schema": {"type": "string"}}
        return {status: {"description": "done", "content": {endpoint.answer: kind}}}
    name = endpoint.answer.removesuffix("[]")
    schema = _array(_ref(name)) if name != endpoint.answer else _ref(name)
    return {status: _content("done", schema)}


def _content(what: str, schema: Schema) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, where: str, what: str) -> dict[str, Any]:
    kind = "integer" if name in _NUMBERS else "string"
    told = {"description": what} if what else {}
    required = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, **required, **told, "schema": {"type": kind}}


def _control() -> dict[str, Any]:
    """The schemas of `tuner.experiment.control`, as pydantic tells them."""
    schema = TypeAdapter(Control).json_schema(ref_template=f"{_REF}{{model}}")
    verbs = schema.pop("$defs")
    return {**verbs, "Control": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"{_REF}{name}"}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(required: Mapping[str, Any], **optional: Any) -> Schema:
    properties = {**required, **optional}
    return {"type": "object", "required": list(required), "properties": properties}


_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_TRUTH: Schema = {"type": "boolean"}
_ANY: Schema = {"type": "object"}
_METRICS: Schema = {"type": "object", "additionalProperties": _NUMBER}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


_COUNTS = _object(dict.fromkeys(COUNTED, _WHOLE))
_BEST = _object(
    {
        "trial_id": _TEXT,
        "config": _ANY,
        "epoch": _WHOLE,
        "metrics": _METRICS,
        "checkpoint": _or_null(_TEXT),
        "shown": {"enum": ["searched", "confirmed"]},
    }
)
_ROW = {
    "trial_id": _TEXT,
    "status": _TEXT,
    "epochs": _WHOLE,
    "epoch": _or_null(_WHOLE),
    "time": _NUMBER,
    "error": _or_null(_TEXT),
    "config": _ANY,
}
_SCHEMAS: dict[str, Schema] = {
    "Error": _object({"error": _TEXT}),
    "Asked": _object({"id": _TEXT}),
    "Request": _object({"id": _TEXT, "control": _ref("Control"), "by": _TEXT}),
    "Document": _object({"format": _WHOLE, "spec": _ANY}),
    "Listed": _object(
        {
            "name": _TEXT,
            "folder": _TEXT,
            "status": _TEXT,
            "counts": _COUNTS,
            "metric": _or_null(_TEXT),
            "best": _or_null(_NUMBER),
            "started": _or_null(_NUMBER),
            "problem": _or_null(_TEXT),
            "ended_by": _or_null(_TEXT),
            "strategy": _or_null(_TEXT),
            "seed": _or_null(_WHOLE),
            "searched_s": _or_null(_NUMBER),
            "tags": _array(_TEXT),
            "note": _TEXT,
            "total": _or_null(_WHOLE),
        }
    ),
    "Best": _BEST,
    "Shown": _object(
        {"name": _TEXT, "status": _TEXT, "counts": _COUNTS, "best": _or_null(_BEST)},
        ended_by=_TEXT,
        confirmed=_ANY,
        validation=_ANY,
        test=_ANY,
        controls=_array(
            _object({"id": _TEXT, "time": _NUMBER, "control": _ANY}, by=_TEXT, refused=_TEXT)
        ),
        paused=_TRUTH,
        changes=_array(
            _object(
                {
                    "time": _or_null(_NUMBER),
                    "after_epochs": _or_null(_WHOLE),
                    "was": _ANY,
                    "is": _ANY,
                }
            )
        ),
    ),
    "Row": _object(_ROW),
    "Trial": _object(
        {**_ROW, "message": _or_null(_TEXT), "reports": _array(_object({"epoch": _WHOLE}))}
    ),
    "Curves": _object(
        {
            "metric": _TEXT,
            "mode": _TEXT,
            "metrics": _array(_TEXT),
            "dots": _array({"type": "array"}),
            "best_so_far": _array({"type": "array"}),
            "of": _TEXT,
            "curves": _array(_object({"trial_id": _TEXT, "status": _TEXT, "points": _array({})})),
        }
    ),
}
_CLOSED: Schema = {
    **_content("nothing was done; with Retry-After, ask again", _ref("Error")),
    "headers": {"Retry-After": {"description": "seconds", "schema": _WHOLE}},
}
_STANDING = _object({"should_stop": _TRUTH, "status": _TEXT})
_SUGGESTED = _object({"trial_id": _TEXT, "config": _ANY, "seed": _or_null(_WHOLE), "epoch": _WHOLE})
_TRIAL = "/{name}/trials/{trial_id}"
_VERBS: dict[str, tuple[Schema, Schema]] = {  # below ASK_TELL: what each takes, and answers
    "/": (_object({"search": _ANY}, name=_TEXT), _object({"name": _TEXT, "created": _TRUTH})),
    "/{name}/suggest": (
        _object({}, client={**_TEXT, "maxLength": 200}),
        _object({"trial": _or_null(_SUGGESTED), "ended": _TRUTH}),
    ),
    f"{_TRIAL}/report": (
        _object({"epoch": {**_WHOLE, "minimum": 1}, "metrics": _METRICS}),
        _STANDING,
    ),
    f"{_TRIAL}/should-stop": (_ANY, _STANDING),
    f"{_TRIAL}/complete": (
        _object({}, failure=_TEXT, kind={"enum": list(FAILURE_KINDS)}),
        _STANDING,
    ),
    "/{name}/close": (_ANY, _ANY),
}
