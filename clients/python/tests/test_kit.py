"""The test kit, logging and traces."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from windlass import (
    Cancelled,
    Context,
    IdFilter,
    Permanent,
    Retriable,
    Skip,
    Worker,
    current_context,
)
from windlass.testing import Given, Result, run_action, run_action_async


def test_an_action_runs_as_the_engine_would_run_it() -> None:
    worker = Worker("http://127.0.0.1:1")

    @worker.action("a.b")
    def action(x: int, context: Context) -> dict[str, Any]:
        context.heartbeat({"half": True})
        return {"x": x, "key": context.idempotency_key, "pair": (1, 2)}

    result = run_action(worker, "a.b", {"x": 3}, given=Given(idempotency_key="k"))
    assert result == Result(
        "Succeeded", {"x": 3, "key": "k", "pair": [1, 2]}, progress={"half": True}
    )
    assert run_action(worker, "a.b", {"x": "3"}).code == "PARAMETERS_INVALID"
    with pytest.raises(KeyError, match=r"no action 'a\.c'; it has: a\.b"):
        run_action(worker, "a.c")


def test_retriable_failures_are_tried_again_under_the_same_key() -> None:
    seen: list[tuple[int, str]] = []

    async def action(context: Context) -> str:
        seen.append((context.attempt, context.idempotency_key))
        if context.attempt < 3:
            raise Retriable("not yet", after=60)
        return "done"

    assert Retriable(after=timedelta(minutes=1)).retry_after == 60
    assert run_action(action, given=Given(max_attempts=5)).attempts == 3
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert len({key for _, key in seen}) == 1
    failed = run_action(action, given=Given(max_attempts=2))
    assert (failed.status, failed.retry_after, failed.attempts) == ("Failed", 60, 2)


def test_permanent_failures_and_skips_are_not_tried_again() -> None:
    def permanent() -> None:
        raise Permanent("no", code="NO_SUCH_ACCOUNT")

    def skip() -> None:
        raise Skip

    result = run_action(permanent, given=Given(max_attempts=5))
    assert (result.code, result.retriable, result.attempts) == ("NO_SUCH_ACCOUNT", False, 1)
    assert run_action(skip, given=Given(max_attempts=5)).status == "Skipped"


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_test_can_cancel_an_attempt(asynchronous: bool) -> None:
    started = threading.Event()

    async def action() -> None:
        started.set()
        await asyncio.sleep(30)

    def plain(context: Context) -> None:
        started.set()
        context.sleep(30)

    def stop_later(context: Context) -> None:
        def wait_and_stop() -> None:
            started.wait(30)
            context.stop("a person cancelled")

        threading.Thread(target=wait_and_stop, daemon=True).start()

    result = run_action(action if asynchronous else plain, on_start=stop_later)
    assert (result.status, result.message) == ("Cancelled", "a person cancelled")


def test_an_attempt_times_out() -> None:
    def action(context: Context) -> None:
        left = context.remaining()
        assert left is not None
        assert left <= 0.02
        context.sleep(30)

    result = run_action(action, given=Given(timeout=0.02))
    assert (result.code, result.retriable) == ("TIMEOUT", True)


def test_cancelled_that_the_engine_did_not_ask_for_is_a_failure() -> None:
    async def action() -> None:
        raise Cancelled

    assert run_action(action).code == "UNHANDLED_EXCEPTION"


def test_async_tests_await_the_kit() -> None:
    async def main() -> Result:
        with pytest.raises(RuntimeError, match="awaits run_action_async"):
            run_action(lambda: 1)
        return await run_action_async(lambda: 1)

    assert asyncio.run(main()).output == 1


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_errors_of_actions_are_checked_where_they_are_made(wrong: float) -> None:
    with pytest.raises(ValueError, match="seconds to wait"):
        Retriable("x", after=wrong)
    with pytest.raises(ValueError, match="not an error code"):
        Permanent("x", code="two words")


def test_log_records_carry_the_ids_of_the_attempt() -> None:
    records: list[logging.LogRecord] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Collect()
    handler.addFilter(IdFilter())
    logger = logging.getLogger("some.library")
    logger.setLevel(logging.INFO)
    logging.getLogger("windlass").setLevel(logging.INFO)
    for target in (logger, logging.getLogger("windlass")):
        target.addHandler(handler)
    try:

        def action(context: Context) -> None:
            logger.info("from a library")
            context.log.info("from the action", extra={"cents": 5})
            assert current_context() is context

        run_action(action, given=Given(attempt=2, node="charge"))
        logger.info("outside")
    finally:
        for target in (logger, logging.getLogger("windlass")):
            target.removeHandler(handler)
    ids = [(vars(record)["node"], vars(record)["attempt"]) for record in records]
    assert ids == [("charge", 2), ("charge", 2), ("-", "-")]
    assert vars(records[1])["cents"] == 5
    with pytest.raises(LookupError):
        current_context()


def test_the_span_of_an_action_continues_the_runs_trace() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

    def action(fails: bool) -> str:
        if fails:
            raise Permanent("no", code="NO")
        return format(trace.get_current_span().get_span_context().trace_id, "032x")

    given = Given(traceparent=f"00-{trace_id}-{span_id}-01", node="charge")
    assert run_action(action, "a.b", {"fails": False}, given=given).output == trace_id
    assert run_action(action, "a.b", {"fails": True}, given=given).code == "NO"
    good, bad = exporter.get_finished_spans()
    assert good.name == "action a.b"
    assert good.parent is not None
    assert format(good.parent.span_id, "016x") == span_id
    assert good.attributes is not None
    assert good.attributes["windlass.node"] == "charge"
    assert good.status.is_ok or good.status.is_unset
    assert bad.status.status_code is trace.StatusCode.ERROR
