"""A test kit: runs an action's function as the engine would, without a server.

The parameters go through JSON and are decoded as they are from the wire, what the function
does becomes an outcome by the worker's own code, and retriable failures are tried again under
the next attempt number and the same idempotency key::

    from windlass.testing import run_action

    def test_charge() -> None:
        result = run_action(worker, "billing.charge", {"customer": "c1", "cents": 250})
        assert result.output == {"receipt": "r1"}
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.action import Action
from windlass.context import Context
from windlass.encode import dumps
from windlass.execute import perform_async, perform_sync, result_of_task
from windlass.outcome import Completed, Failed, Outcome, Skipped
from windlass.task import HEARTBEAT_MS, Task
from windlass.worker import Worker

TIMED_OUT = "the attempt has timed out"


@dataclass(frozen=True)
class Result:
    """How the last attempt ended, in the words of a node: Succeeded, Failed, Skipped, Cancelled."""

    status: str
    output: Any = None
    code: str | None = None
    message: str | None = None
    retriable: bool | None = None
    retry_after: float | None = None
    details: Mapping[str, Any] | None = None
    attempts: int = 1
    # Details of the last heartbeat, what `Context.meta` and `Context.resource` were given.
    progress: Any = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    resources: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Given:
    """The circumstances of a test: what the engine would put into the task."""

    attempt: int = 1
    # How many attempts the node's retry policy allows in all.
    max_attempts: int = 1
    timeout: float | None = 300.0
    node: str = "node"
    execution_id: str = "00000000-0000-7000-8000-000000000000"
    workflow_id: str = "test"
    idempotency_key: str | None = None
    traceparent: str | None = None


def run_action(
    action: Worker | Callable[..., Any],
    action_type: str | None = None,
    parameters: Any = None,
    *,
    given: Given | None = None,
    on_start: Callable[[Context], None] | None = None,
) -> Result:
    """Runs an action to its end, `async` or not.

    `action` is a worker, whose action `action_type` is run, or a function. `on_start` gets
    the context of each attempt before it runs; a test that cancels keeps it and calls
    `context.stop("why")`, at once or later from another thread.
    """
    return _in_loop(
        run_action_async(action, action_type, parameters, given=given, on_start=on_start)
    )


async def run_action_async(
    action: Worker | Callable[..., Any],
    action_type: str | None = None,
    parameters: Any = None,
    *,
    given: Given | None = None,
    on_start: Callable[[Context], None] | None = None,
) -> Result:
    """`run_action` for tests that are `async` themselves."""
    found = _action(action, action_type)
    given = given or Given()
    number = given.attempt
    while True:
        context = Context(_task(found, parameters, given, number))
        if on_start is not None:
            on_start(context)
        outcome = await _perform(found, context, given.timeout)
        again = isinstance(outcome, Failed) and outcome.retriable
        if not again or number >= given.max_attempts:
            return _result(outcome, context, number)
        number += 1


async def _perform(action: Action, context: Context, timeout: float | None) -> Outcome:
    timer = threading.Timer(timeout, context.stop, [TIMED_OUT]) if timeout is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        if action.is_async:
            running = asyncio.ensure_future(perform_async(action, context))
            loop = asyncio.get_running_loop()
            context.on_stop(lambda: loop.call_soon_threadsafe(running.cancel))
            await asyncio.wait({running})
            outcome = result_of_task(running, context)
        else:
            outcome = await asyncio.to_thread(perform_sync, action, context)
    finally:
        if timer is not None:
            timer.cancel()
    stopped = not isinstance(outcome, Completed | Failed | Skipped)
    if stopped and context.stop_reason == TIMED_OUT:
        return Failed("TIMEOUT", TIMED_OUT, retriable=True)
    return outcome


def _action(action: Worker | Callable[..., Any], action_type: str | None) -> Action:
    if not isinstance(action, Worker):
        return Action(action_type or "test.action", action)
    known = action.actions
    if action_type is None or action_type not in known:
        names = ", ".join(known) or "none"
        raise KeyError(f"the worker has no action {action_type!r}; it has: {names}")
    return known[action_type]


def _task(action: Action, parameters: Any, given: Given, number: int) -> Task:
    return Task(
        task_id=f"{given.execution_id}/{given.node}/{number}",
        lease="test",
        execution_id=given.execution_id,
        workflow_id=given.workflow_id,
        version=1,
        node=given.node,
        attempt=number,
        action_type=action.action_type,
        # Through JSON, so that a test cannot pass what the wire could not.
        parameters=json.loads(dumps(parameters)),
        idempotency_key=given.idempotency_key or f"{given.execution_id}/{given.node}",
        timeout_ms=None if given.timeout is None else round(given.timeout * 1000),
        deadline=None,
        heartbeat_ms=HEARTBEAT_MS,
        traceparent=given.traceparent,
    )


def _result(outcome: Outcome, context: Context, attempts: int) -> Result:
    common: dict[str, Any] = {"attempts": attempts, "progress": context.take_progress()}
    if isinstance(outcome, Completed):
        return Result(
            "Succeeded",
            json.loads(outcome.encoded),
            meta=outcome.meta,
            resources=tuple(outcome.resources),
            **common,
        )
    if isinstance(outcome, Skipped):
        return Result("Skipped", **common)
    if isinstance(outcome, Failed):
        return Result(
            "Failed",
            code=outcome.code,
            message=outcome.message,
            retriable=outcome.retriable,
            retry_after=outcome.retry_after,
            details=outcome.details,
            **common,
        )
    return Result("Cancelled", message=outcome.reason, **common)


def _in_loop(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise RuntimeError("a test that is async itself awaits run_action_async")
