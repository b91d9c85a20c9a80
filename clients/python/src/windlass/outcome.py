"""How an attempt ended, and how that is said over the wire.

Every exception of a function becomes an outcome here, for the worker and the test kit alike.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from windlass.context import Context
from windlass.encode import NotJson, dumps
from windlass.errors import ActionError, Cancelled, Skip

# Longer messages are cut: they are recorded with the run and shown in lists.
MESSAGE_CHARACTERS = 4000


# The server cuts delays at its own limit; this only keeps the number one that it can read.
LONGEST_SECONDS = 366 * 86_400


@dataclass(frozen=True)
class Completed:
    """The function returned. `encoded` is its output in JSON."""

    encoded: bytes
    meta: Mapping[str, Any] = field(default_factory=dict)
    resources: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Failed:
    """The function raised, or its parameters or output do not fit."""

    code: str
    message: str
    retriable: bool
    retry_after: float | None = None
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Skipped:
    """The function raised `Skip`."""


@dataclass(frozen=True)
class Stopped:
    """The function ended because it was asked to stop."""

    reason: str


Outcome = Union[Completed, Failed, Skipped, Stopped]  # noqa: UP007 - an alias at run time


def of_return(value: Any, context: Context) -> Outcome:
    """The outcome of a function that returned."""
    try:
        encoded = dumps(value)
        dumps([context.meta, list(context.resources)])
    except NotJson as error:
        message = f"the output of {context.task.action_type} is not JSON: {error}"
        return Failed("OUTPUT_NOT_JSON", message, retriable=False)
    return Completed(encoded, dict(context.meta), context.resources)


def of_exception(error: BaseException, context: Context) -> Outcome:
    """The outcome of a function that raised."""
    if isinstance(error, Cancelled) and context.cancelled:
        return Stopped(context.stop_reason or "the attempt was asked to stop")
    if isinstance(error, Skip):
        return Skipped()
    if isinstance(error, ActionError):
        return Failed(
            error.code, _cut(error.message), error.retriable, error.retry_after, error.details
        )
    # An unforeseen exception may be one of the network; the node's retry policy bounds how
    # often that is hoped for. The traceback stays in the worker's log: it may hold secrets.
    kind = type(error).__name__
    details: dict[str, Any] = {"exception": f"{type(error).__module__}.{kind}"}
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        last = frames[-1]
        details["at"] = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno} in {last.name}"
    message = _cut(f"{kind}: {error}" if str(error) else kind)
    return Failed("UNHANDLED_EXCEPTION", message, retriable=True, details=details)


def request_of(outcome: Outcome, lease: str) -> tuple[str, bytes]:
    """The last part of the route, and the body that reports the outcome."""
    if isinstance(outcome, Completed):
        rest: dict[str, Any] = {"lease": lease}
        if outcome.meta:
            rest["meta"] = outcome.meta
        if outcome.resources:
            rest["resources"] = outcome.resources
        # The output is encoded already, perhaps ten megabytes of it.
        return "complete", dumps(rest)[:-1] + b',"output":' + outcome.encoded + b"}"
    if isinstance(outcome, Skipped):
        return "skip", dumps({"lease": lease})
    if isinstance(outcome, Stopped):
        outcome = Failed("STOPPED", outcome.reason, retriable=False)
    body: dict[str, Any] = {
        "lease": lease,
        "code": outcome.code,
        "message": outcome.message,
        "retriable": outcome.retriable,
    }
    if outcome.retry_after is not None:
        body["retryAfterMs"] = round(min(outcome.retry_after, LONGEST_SECONDS) * 1000)
    if outcome.details is not None:
        body["details"] = outcome.details
    return "fail", _dumps_or_without_details(body)


def _dumps_or_without_details(body: dict[str, Any]) -> bytes:
    """An error must arrive, even if its details or message cannot be written."""
    try:
        return dumps(body)
    except NotJson:
        body["details"] = {"note": "the details of the error are not JSON"}
        body["message"] = body["message"].encode("utf-8", "replace").decode("utf-8")
        return dumps(body)


def _cut(message: str) -> str:
    if len(message) <= MESSAGE_CHARACTERS:
        return message
    return f"{message[: MESSAGE_CHARACTERS - 1]}…"
