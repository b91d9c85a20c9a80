"""A task as the server hands it out, and the identity of the worker that asks for it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What the server promises (docs/workers.md): a lease ends after three missed heartbeats.
HEARTBEAT_MS = 3000


@dataclass(frozen=True)
class Task:
    """One attempt of one node, leased to this worker."""

    task_id: str
    lease: str
    execution_id: str
    workflow_id: str
    version: int
    node: str
    attempt: int
    action_type: str
    parameters: Any
    idempotency_key: str
    # What remains of the attempt's time when the task is handed out. The worker measures from
    # there on its own monotonic clock, so clocks that differ do no harm.
    timeout_ms: int | None
    deadline: str | None
    heartbeat_ms: int
    traceparent: str | None

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Task:
        """Reads a task; keys that this version does not know are ignored."""
        return cls(
            task_id=str(data["taskId"]),
            lease=str(data["lease"]),
            execution_id=str(data["executionId"]),
            workflow_id=str(data["workflowId"]),
            version=int(data.get("version") or 0),
            node=str(data["node"]),
            attempt=int(data["attempt"]),
            action_type=str(data["actionType"]),
            parameters=data.get("parameters"),
            idempotency_key=str(data["idempotencyKey"]),
            timeout_ms=_milliseconds(data.get("timeoutMs")),
            deadline=data.get("deadline"),
            heartbeat_ms=_milliseconds(data.get("heartbeatMs")) or HEARTBEAT_MS,
            traceparent=data.get("traceparent"),
        )

    def __repr__(self) -> str:
        # Parameters may hold secrets, and a lease is one: neither belongs in logs.
        return (
            f"Task({self.action_type} of {self.execution_id}/{self.node}, attempt {self.attempt})"
        )


def worker_name() -> str:
    """A name that no other process has: the server tells workers apart by it."""
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"


def _milliseconds(value: Any) -> int | None:
    return None if value is None else int(value)
