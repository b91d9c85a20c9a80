"""What an action's function sees of its attempt: ids, the time that is left, requests to stop.

Must not know HTTP: the worker's session and the test kit both drive a context.
"""

from __future__ import annotations

import contextvars
import datetime
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from windlass.errors import Cancelled
from windlass.logs import task_logger
from windlass.task import Task

_current: contextvars.ContextVar[Context | None] = contextvars.ContextVar(
    "windlass_context", default=None
)


def current_context() -> Context:
    """The context of the action that runs here; raises `LookupError` outside of one."""
    context = _current.get()
    if context is None:
        raise LookupError("no action runs here; current_context() works inside actions only")
    return context


class Context:
    """One attempt, as its function sees it. Every method may be called from any thread."""

    def __init__(self, task: Task, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._clock = clock
        self._ends = None if task.timeout_ms is None else clock() + task.timeout_ms / 1000
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._reason: str | None = None
        self._listeners: list[Callable[[], object]] = []
        self._progress: Any = None
        # What the attempt reports about how it ran, beside its output. It is recorded.
        self.meta: dict[str, Any] = {}
        self._resources: list[dict[str, Any]] = []
        # A logger whose records carry the ids of this attempt.
        self.log: logging.LoggerAdapter[logging.Logger] = task_logger(task)

    @property
    def task(self) -> Task:
        """The task as the server handed it out."""
        return self._task

    @property
    def execution_id(self) -> str:
        """The run."""
        return self._task.execution_id

    @property
    def workflow_id(self) -> str:
        """The workflow that the run is of."""
        return self._task.workflow_id

    @property
    def node(self) -> str:
        """The node's path in the run, such as `charge-all[17]/charge`."""
        return self._task.node

    @property
    def attempt(self) -> int:
        """The attempt's number, from 1. A task that is handed out again keeps it."""
        return self._task.attempt

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this node: give it to services that accept one."""
        return self._task.idempotency_key

    @property
    def deadline(self) -> datetime.datetime | None:
        """When the attempt times out, by the server's clock."""
        if self._task.deadline is None:
            return None
        return datetime.datetime.fromisoformat(self._task.deadline.replace("Z", "+00:00"))

    def remaining(self) -> float | None:
        """Seconds until the attempt times out; `None` if it never does."""
        return None if self._ends is None else max(0.0, self._ends - self._clock())

    @property
    def cancelled(self) -> bool:
        """Whether the attempt is asked to stop."""
        return self._stopped.is_set()

    @property
    def stop_reason(self) -> str | None:
        """Why the attempt is asked to stop, for people; `None` while it is not."""
        return self._reason

    def check(self) -> None:
        """Raises `Cancelled` if the attempt is asked to stop.

        Plain functions call it between steps. Async functions need not: asyncio raises
        `Cancelled` where they await.
        """
        if self._stopped.is_set():
            raise Cancelled(self._reason)

    def sleep(self, seconds: float) -> None:
        """Sleeps in a plain function; raises `Cancelled` as soon as it is asked to stop."""
        self._stopped.wait(seconds)
        self.check()

    def heartbeat(self, details: Any) -> None:
        """Tells the server how far the attempt is, with the next heartbeat.

        Heartbeats are sent without this; it only adds details. Raises `Cancelled` if the
        attempt is asked to stop.
        """
        with self._lock:
            self._progress = details
        self.check()

    def resource(self, system: str, kind: str, identifier: str, url: str | None = None) -> None:
        """Reports a thing that the action made in another system, so that people find it."""
        entry = {"system": system, "type": kind, "id": identifier}
        with self._lock:
            self._resources.append(entry if url is None else {**entry, "url": url})

    # What follows is for the worker's session and the test kit.

    @property
    def resources(self) -> list[Mapping[str, Any]]:
        """What `resource` was told."""
        with self._lock:
            return list(self._resources)

    def take_progress(self) -> Any:
        """The details for the next heartbeat, once."""
        with self._lock:
            details, self._progress = self._progress, None
            return details

    def keep_progress(self, details: Any) -> None:
        """Gives details back that no heartbeat delivered, unless there are newer ones."""
        with self._lock:
            if self._progress is None:
                self._progress = details

    def stop(self, reason: str) -> None:
        """Asks the function to stop; the first reason stays."""
        with self._lock:
            if self._stopped.is_set():
                return
            self._reason = reason
            self._stopped.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def on_stop(self, listener: Callable[[], object]) -> None:
        """Calls the listener when the function is asked to stop, at once if it was already."""
        with self._lock:
            if not self._stopped.is_set():
                self._listeners.append(listener)
                return
        listener()

    def enter(self) -> contextvars.Token[Context | None]:
        """Makes this the current context of the calling thread or asyncio task."""
        return _current.set(self)


def context_or_none() -> Context | None:
    """The current context, where logging asks outside of actions too."""
    return _current.get()
