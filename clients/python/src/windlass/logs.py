"""Logging with ids: which run, node and attempt a log record belongs to."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.task import Task

LOGGER = logging.getLogger("windlass")

# The attributes that records of an attempt have.
FIELDS = ("execution_id", "workflow_id", "node", "attempt", "action_type", "task_id")


def task_ids(task: Task) -> dict[str, Any]:
    """The ids of a task, as attributes of log records. Neither the lease nor parameters."""
    return {field: getattr(task, field) for field in FIELDS}


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    # It takes no type arguments before Python 3.11.
    _Adapter = logging.LoggerAdapter


class _TaskAdapter(_Adapter):
    """Adds the ids to `extra`, and leaves what the caller put there."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        own: Mapping[str, Any] = self.extra or {}
        return msg, {**kwargs, "extra": {**own, **(kwargs.get("extra") or {})}}


def task_logger(task: Task) -> logging.LoggerAdapter[logging.Logger]:
    """A logger whose records carry the ids of the task."""
    return _TaskAdapter(LOGGER.getChild("action"), task_ids(task))


class IdFilter(logging.Filter):
    """Adds the ids of the running attempt to the records of every logger.

    Put it on a handler, and the format may name the ids::

        handler.addFilter(IdFilter())
        handler.setFormatter(logging.Formatter("%(message)s run=%(execution_id)s node=%(node)s"))

    Outside of an action the ids are `-`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds what is missing; keeps every record."""
        # Imported late: a context has a logger from this file.
        from windlass.context import context_or_none  # noqa: PLC0415

        context = context_or_none()
        ids = task_ids(context.task) if context is not None else dict.fromkeys(FIELDS, "-")
        for field, value in ids.items():
            if not hasattr(record, field):
                setattr(record, field, value)
        return True
