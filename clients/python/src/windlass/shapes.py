"""What the server answers, as typed values. `raw` holds the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENDED = frozenset({"Succeeded", "Failed", "Cancelled"})


@dataclass(frozen=True)
class Published:
    """A definition that was published."""

    workflow_id: str
    version: int
    # False if this content was published before.
    created: bool

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Published:
        """Reads the answer of `POST /workflows`."""
        return cls(data["workflowId"], data["version"], data["created"])


@dataclass(frozen=True)
class Started:
    """A run that was asked for."""

    execution_id: str
    status: str
    # True if an earlier request with the same request id had started it.
    existing: bool

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Started:
        """Reads the answer of `POST /workflows/{id}/execute`."""
        return cls(data["executionId"], data["status"], data["existing"])


@dataclass(frozen=True)
class Acted:
    """What a command did to a run."""

    execution_id: str
    workflow_id: str
    status: str
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Acted:
        """Reads the answer of a command."""
        return cls(data["executionId"], data["workflowId"], data["status"], data)


@dataclass(frozen=True)
class NodeState:
    """One node instance of a run."""

    status: str
    attempts: int
    output: Any
    error: Mapping[str, Any] | None
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> NodeState:
        """Reads an entry of `nodes`."""
        return cls(
            data["status"], data.get("attempts") or 0, data.get("output"), data.get("error"), data
        )


@dataclass(frozen=True)
class Execution:
    """A run as it stood when it was asked for."""

    execution_id: str
    workflow_id: str
    version: int
    status: str
    output: Any
    error: Mapping[str, Any] | None
    nodes: Mapping[str, NodeState] = field(repr=False)
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Execution:
        """Reads the answer of `GET /executions/{id}`."""
        nodes = {path: NodeState.from_wire(node) for path, node in data["nodes"].items()}
        return cls(
            execution_id=data["executionId"],
            workflow_id=data["workflowId"],
            version=data["version"],
            status=data["status"],
            output=data.get("output"),
            error=data.get("error"),
            nodes=nodes,
            raw=data,
        )

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.status in ENDED


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""

    position: int
    at: str
    level: str
    category: str
    kind: str
    node: str | None
    attempt: int | None
    data: Mapping[str, Any]

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Event:
        """Reads an event of a page or a stream."""
        return cls(
            data["position"],
            data["at"],
            data["level"],
            data["category"],
            data["kind"],
            data.get("node"),
            data.get("attempt"),
            data.get("data") or {},
        )
