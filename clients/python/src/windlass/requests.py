"""The requests of the client, as data: `Client` and `AsyncClient` send the same ones.

Every request that changes something carries a key, so that it may be repeated after a lost
answer without being carried out twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from windlass.encode import dumps
from windlass.shapes import Acted, Execution, Published, Started

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Request(Generic[Answer]):
    """One request and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], Answer]
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    # Whether the server carries it out once, however often it arrives.
    repeatable: bool = True


def publish(definition: Mapping[str, Any] | str | bytes) -> Request[Published]:
    """A new version; content that is published already makes none, so it may be repeated."""
    text = definition.encode() if isinstance(definition, str) else definition
    body = text if isinstance(text, bytes) else dumps(text)
    # Only what begins with a brace is JSON; the server reads YAML as well.
    kind = "application/json" if body.lstrip()[:1] == b"{" else "application/yaml"
    return Request(
        "POST", "/api/v1/workflows", Published.from_wire, body, headers={"Content-Type": kind}
    )


def start(workflow_id: str, options: Mapping[str, Any]) -> Request[Started]:
    """A run; the request id, given or made here, keeps a repeated request from a second one."""
    given = {key: value for key, value in options.items() if value is not None}
    given.setdefault("requestId", str(uuid.uuid4()))
    return _post(f"/api/v1/workflows/{_part(workflow_id)}/execute", Started.from_wire, given)


def show(execution_id: str, include: Sequence[str]) -> Request[Execution]:
    """A run; `include` may name actions, resources and events."""
    query = {"include": ",".join(include)} if include else {}
    path = f"/api/v1/executions/{_part(execution_id)}"
    return Request("GET", path, Execution.from_wire, query=query)


def command(execution_id: str, name: str, body: Mapping[str, Any]) -> Request[Acted]:
    """Cancel, pause, resume, signal and the like."""
    given = {key: value for key, value in body.items() if value is not None}
    path = f"/api/v1/executions/{_part(execution_id)}/{name}"
    return _post(path, Acted.from_wire, given, {"Idempotency-Key": str(uuid.uuid4())})


def raw(method: str, path: str, body: Any, query: Mapping[str, str] | None) -> Request[Any]:
    """A route that has no method of its own."""
    encoded = None if body is None else dumps(body)
    headers = {} if body is None else {"Content-Type": "application/json"}
    # Only these routes take a key.
    keyed = path.startswith("/api/v1/executions/") or path.endswith("/execute")
    if method.upper() == "POST" and keyed:
        headers["Idempotency-Key"] = str(uuid.uuid4())
    repeatable = method.upper() in ("GET", "HEAD") or keyed
    return Request(
        method.upper(), path, lambda data: data, encoded, query or {}, headers, repeatable
    )


def events_path(execution_id: str) -> str:
    """Where the events of a run are streamed."""
    return f"/api/v1/executions/{_part(execution_id)}/events"


def _post(
    path: str,
    read: Callable[[Any], Answer],
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> Request[Answer]:
    all_headers = {"Content-Type": "application/json", **(headers or {})}
    return Request("POST", path, read, dumps(body), headers=all_headers)


def _part(text: str) -> str:
    return quote(text, safe="")


def start_options(
    trigger: Any,
    version: int | None,
    request_id: str | None,
    priority: int | None,
    labels: Mapping[str, str] | None,
    correlation_id: str | None,
) -> dict[str, Any]:
    """The body of a start, by the names of the wire."""
    return {
        "trigger": trigger,
        "version": version,
        "requestId": request_id,
        "priority": priority,
        "labels": labels,
        "correlationId": correlation_id,
    }
