"""OpenTelemetry, where it is installed: spans of actions continue the run's trace.

Without `opentelemetry-api` everything here does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from windlass.outcome import Failed, Outcome
from windlass.task import Task

try:
    from opentelemetry import propagate, trace
except ImportError:  # pragma: no cover - the tests install it
    propagate = None  # type: ignore[assignment]
    trace = None  # type: ignore[assignment]


class Span:
    """The span of one attempt; `finish` tells it how the attempt ended."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def finish(self, outcome: Outcome) -> None:
        """Marks the span as failed if the attempt failed."""
        if self._span is not None and isinstance(outcome, Failed):
            self._span.set_attribute("error.type", outcome.code)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, outcome.message))


@contextmanager
def attempt_span(task: Task) -> Iterator[Span]:
    """A span around the function, child of the `traceparent` that came with the task."""
    if trace is None:
        yield Span()
        return
    carrier = {"traceparent": task.traceparent} if task.traceparent else {}
    parent = propagate.extract(carrier)
    attributes: dict[str, str | int] = {
        "windlass.execution_id": task.execution_id,
        "windlass.workflow_id": task.workflow_id,
        "windlass.node": task.node,
        "windlass.attempt": task.attempt,
        "windlass.action_type": task.action_type,
    }
    tracer = trace.get_tracer("windlass")
    with tracer.start_as_current_span(
        f"action {task.action_type}",
        context=parent,
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        # The outcome says what failed; a stop is no failure.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield Span(span)


def inject(headers: MutableMapping[str, str]) -> None:
    """Adds the current trace to the headers of a request."""
    if propagate is not None:
        propagate.inject(headers)
