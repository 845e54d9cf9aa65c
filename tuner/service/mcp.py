"""MCP at /mcp: tools with which an agent reads and steers experiments, and fills the queue.

An answer is JSON of at most BRIEF bytes unless the agent asks for more. An agent names no code: it
starts what ships, and what the user has in experiments/. Needs the extra `serve`.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tuner.errors import TunerError, UsageError, build_unknown_fault
from tuner.experiment.control import build_control, send_request
from tuner.experiment.results.confirmation import show_json
from tuner.experiment.results.listing import find
from tuner.experiment.results.trial_rows import describe_trial
from tuner.experiment.verbs import VERBS
from tuner.service.answers import build_refusal
from tuner.service.commands import compute_findings, validate_experiment
from tuner.service.dependencies import choose_rows
from tuner.service.queue.entries import Queue, build_entry
from tuner.service.queue.searches import build_entry_spec
from tuner.service.watch import Experiments
from tuner.spec.experiment import ExperimentSpec, build_spec

BRIEF = 2000  # bytes of an answer, and of an error
# Before a client's name, as the requester of controls and the user of entries
AGENT = "mcp:"
_SHORT = 10  # rows of a brief list
_INSTRUCTIONS = (
    "Searches for hyperparameters: validate checks a spec, queue_add adds it to the queue, which "
    "`tuner queue run --stay` runs; show follows it, and advise says what to change. Settings are "
    "KEY=VALUE: num_samples=20, time_budget_s=3600, search.space.lr=loguniform(1e-4, 1)."
)

Experiment = Annotated[
    str | dict[str, Any],
    Field(description="a name such as digits; images, folder:PATH; or a complete spec"),
]
Settings = Annotated[
    Sequence[str], Field(description="KEY=VALUE, each a key of the spec")
]
Value = str | int | float | dict[str, Any] | None
Verb = Annotated[str, Field(json_schema_extra={"enum": list(VERBS)})]
Full = Annotated[bool, Field(description="the complete answer, however long")]
Limit = Annotated[
    int, Field(ge=1, description=f"at most so many; above {_SHORT} in full")
]
Text = str | None


class Tools:
    """The tools; the docstrings of the public methods are for the agent.

    limits: `trials` and `time_budget_s` that all searches of agents in the queue may have.
    """

    def __init__(
        self, storage: Text, experiments: Experiments, limits: Mapping[str, float]
    ) -> None:
        self._storage = storage
        self._experiments = experiments
        self._limits = limits
        self._queue = Queue(storage)
        self._adding = threading.Lock()

    def list_experiments(self, where: Text = None, limit: Limit = 10) -> str:
        """The latest experiments. where: an expression over their keys, as status == 'running'."""
        matches = find(self._experiments.list_experiments(), where=where)
        rows = [experiment.as_dict() for experiment in matches[::-1][:limit]]
        return _format_answer(
            {"matches": len(matches), "experiments": rows}, limit > _SHORT
        )

    def show(self, name: str, trial_id: Text = None, full: Full = False) -> str:
        """The status, best trial and controls of an experiment; or a trial with its reports."""
        results = self._experiments.open_experiment(name)
        if trial_id:
            return _format_answer(
                describe_trial(results, results.trial(trial_id)), full
            )
        return _format_answer(show_json(results), full)

    def trials(
        self, name: str, where: Text = None, sort: Text = None, limit: Limit = 10
    ) -> str:
        """The trials of an experiment. where: an expression over their keys; sort: KEY or -KEY."""
        results = self._experiments.open_experiment(name)
        key = (sort or "").removeprefix("-") or None
        chosen = choose_rows(results, where, key, sort != key, limit)
        return _format_answer(
            {"matches": chosen.total, "trials": chosen.rows}, limit > _SHORT
        )

    def advise(self, name: str, full: Full = False) -> str:
        """What to change after a search, with evidence and the command to run next."""
        experiment = self._experiments.open_experiment(name).name
        return _format_answer(
            {"findings": compute_findings(experiment, self._storage)}, full
        )

    def validate(
        self, experiment: Experiment, settings: Settings = (), full: Full = False
    ) -> str:
        """Check a spec: its faults, or the trials, data and time that it takes. Starts nothing."""
        return _format_answer(
            validate_experiment(experiment, settings, self._storage), full
        )

    def queue_list(self, limit: Limit = 10) -> str:
        """The latest searches in the queue, with their users."""
        rows = [status.as_dict() for status in self._queue.list_statuses()]
        return _format_answer(
            {"entries": len(rows), "queue": rows[::-1][:limit]}, limit > _SHORT
        )

    def queue_add(
        self, context: Context, experiment: Experiment, settings: Settings = ()
    ) -> str:
        """Check a spec and add it to the queue. Answers with the name of the new experiment."""
        spec = build_spec(
            validate_experiment(experiment, settings, self._storage)["spec"]
        )
        entry = build_entry(spec, user=_find_user(context), directory=os.getcwd())
        with self._adding:
            self._check_limits(spec)
            name = self._queue.add(
                entry, is_named=any(s.startswith("name=") for s in settings)
            )
        return _format_answer({"name": name, "user": entry.user, "trials": spec.trials})

    def control(
        self, context: Context, name: str, verb: Verb, value: Value = None
    ) -> str:
        """Steer a running search; later, `show` has the answer. Verbs:"""
        if verb not in VERBS:
            raise UsageError(str(build_unknown_fault("verb", "verb", verb, VERBS)))
        key = "trials" if verb in ("num-samples", "try") else VERBS[verb].field
        if key in self._limits:
            raise UsageError(
                f"{verb}: is for users alone, since the {key} of agents are limited"
            )
        control = build_control(verb, value)
        files = self._experiments.open_experiment(name).files
        return _format_answer(
            {"id": send_request(files, control, by=_find_user(context))}
        )

    def _check_limits(self, spec: ExperimentSpec) -> None:
        """Raise UsageError if the spec takes more than agents have left."""
        for key, most in self._limits.items():
            entries = map(self._queue.read_entry, self._queue.list_files())
            specs = [
                build_entry_spec(each)
                for each in entries
                if each and each.user.startswith(AGENT)
            ]
            left = most - sum(getattr(each, key) or 0 for each in specs)
            if (amount := getattr(spec, key)) is None or amount > left:
                rule = f"must be at most {left:g}, which is left of the {most:g} of all agents"
                raise UsageError(f"{key}: {rule}, got {amount}")


def serve_tools(tools: Tools) -> tuple[list[Route], Callable[[], Any]]:
    """The routes of the tools, and what makes the asynchronous context in which they answer."""
    # log_level: the SDK gives Python's root logger a handler, and this level
    server = MCPServer(
        "tuner", version=version("tuner"), instructions=_INSTRUCTIONS, log_level="ERROR"
    )
    verbs = "; ".join(
        f"{verb.name} {verb.written}: {verb.does}" for verb in VERBS.values()
    )
    for name, method in vars(Tools).items():
        if not name.startswith("_"):
            about = f"{method.__doc__} {verbs}" if name == "control" else method.__doc__
            tool = _translate_errors(getattr(tools, name))
            server.add_tool(tool, description=about, structured_output=False)
    [route] = server.streamable_http_app(
        json_response=True,
        stateless_http=True,  # no session that a restart of the server could end
        # access.Guard checks the header Host
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),
    ).routes
    routes = [
        Route("/mcp", route.endpoint, methods=["POST"]),
        Route("/mcp", _refuse_stream),
    ]
    return routes, server.session_manager.run


async def _refuse_stream(request: Request) -> Response:
    return build_refusal(405, "has no stream of events", headers={"Allow": "POST"})


def _translate_errors(tool: Callable[..., str]) -> Callable[..., str]:
    """The tool, whose errors are the SDK's, with a message of at most BRIEF bytes."""

    @wraps(tool)
    def run_tool(*arguments: Any, **options: Any) -> str:
        try:
            return tool(*arguments, **options)
        except (TunerError, OSError) as error:
            message = str(error).encode("ascii", "backslashreplace").decode()
            raise ToolError(message[: BRIEF - 100]) from error

    return run_tool


def _find_user(context: Context) -> str:
    """The client's name; older ones do not send it with each request, but a User-Agent."""
    client = context.session.client_params
    agent = (context.headers or {}).get("user-agent", "")
    name = client.client_info.name if client else agent.partition("/")[0]
    return AGENT + (re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:50] or "agent")


def _format_answer(answer: dict[str, Any], is_full: bool = False) -> str:
    """The answer as JSON, in at most BRIEF bytes unless it is full."""
    text = json.dumps(answer, separators=(",", ":"))
    if not is_full and len(text) > BRIEF:
        cut = {"cut": f"full, or a limit above {_SHORT}, gives the rest"}
        text = json.dumps(
            {**cut, **_clip_value(answer, [BRIEF * 3 // 4])}, separators=(",", ":")
        )[:BRIEF]
    return text


def _clip_value(value: Any, left: list[int]) -> Any:
    """The beginning of `value`, in about as many bytes as are left, which it reduces."""
    if isinstance(value, dict):
        return {
            _clip_value(key, left): _clip_value(item, left)
            for key, item in value.items()
            if left[0] > 0
        }
    if isinstance(value, list | tuple):
        return [_clip_value(item, left) for item in value if left[0] > 0]
    if isinstance(value, str):
        value = value[:200]
    elif isinstance(value, float):
        value = float(f"{value:.6g}")
    left[0] -= len(json.dumps(value)) + 1
    return value
