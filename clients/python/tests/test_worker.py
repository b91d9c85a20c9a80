"""The worker against the fake server: the plain cases."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from conftest import running
from fake_server import PATIENCE, FakeServer
from windlass import (
    ApiError,
    Cancelled,
    Context,
    Permanent,
    Retriable,
    Skip,
    Worker,
    current_context,
)


@dataclass
class Charge:
    customer: str
    cents: int = 100


def test_an_action_gets_its_parameters_and_its_output_is_reported(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url, token="secret", labels=["gpu"])

    @worker.action("billing.charge")
    def charge(order: Charge, context: Context) -> dict[str, Any]:
        """Charges a customer."""
        context.meta["bank"] = "first"
        context.resource("bank", "charge", "c-9", "https://bank.example/c-9")
        return {"customer": order.customer, "cents": order.cents, "key": context.idempotency_key}

    task = fake.enqueue("billing.charge", {"customer": "ada"})
    with running(worker):
        route, body = fake.reported(task)
    assert route == "complete"
    assert body == {
        "lease": "lease-1",
        "output": {"customer": "ada", "cents": 100, "key": "run-1/node"},
        "meta": {"bank": "first"},
        "resources": [
            {"system": "bank", "type": "charge", "id": "c-9", "url": "https://bank.example/c-9"}
        ],
    }
    poll = fake.polls[0]
    assert poll["protocol"] == 1
    assert poll["worker"] == worker.name
    assert poll["labels"] == ["gpu"]
    assert poll["slots"] == 10
    assert poll["holding"] == []
    assert 0 < poll["waitMs"] <= 30_000
    assert poll["actions"] == [
        {
            "actionType": "billing.charge",
            "description": "Charges a customer.",
            "parametersSchema": {
                "type": "object",
                "properties": {
                    "customer": {"type": "string"},
                    "cents": {"type": "integer", "default": 100},
                },
                "required": ["customer"],
                "additionalProperties": False,
            },
        }
    ]
    assert set(fake.authorizations) == {"Bearer secret"}


def test_async_actions_run_on_the_callers_loop(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    loops: list[Any] = []

    @worker.action("a.b")
    async def action(x: int, y: int = 2) -> int:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return x + y + current_context().attempt

    first, second = fake.enqueue("a.b", {"x": 1}), fake.enqueue("a.b", {"x": 5, "y": 5})
    with running(worker):
        assert fake.reported(first)[1]["output"] == 4
        assert fake.reported(second)[1]["output"] == 11
    assert loops[0] is loops[1]


@pytest.mark.parametrize(
    ("raised", "route", "expected"),
    [
        (
            Retriable("busy", after=1.5, code="BANK_BUSY", details={"queue": 3}),
            "fail",
            {
                "code": "BANK_BUSY",
                "message": "busy",
                "retriable": True,
                "retryAfterMs": 1500,
                "details": {"queue": 3},
            },
        ),
        (
            Permanent("no such customer"),
            "fail",
            {"code": "ACTION_FAILED", "message": "no such customer", "retriable": False},
        ),
        (Skip("nothing to do"), "skip", {}),
        (
            SystemExit(3),
            "fail",
            {"code": "ACTION_EXITED", "message": "the action called exit: SystemExit(3)"},
        ),
        (
            KeyError("missing"),
            "fail",
            {
                "code": "UNHANDLED_EXCEPTION",
                "message": "KeyError: 'missing'",
                "retriable": True,
            },
        ),
    ],
)
@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_a_function_raises_is_reported(
    fake: FakeServer,
    url: str,
    raised: BaseException,
    route: str,
    expected: dict[str, Any],
    asynchronous: bool,
) -> None:
    worker = Worker(url)
    if asynchronous:

        @worker.action("a.b")
        async def action() -> None:
            raise raised

    else:

        @worker.action("a.b")
        def plain() -> None:
            raise raised

    task = fake.enqueue("a.b")
    with running(worker):
        got, body = fake.reported(task)
    assert got == route
    assert {**body, **expected} == body
    if isinstance(raised, KeyError):
        assert body["details"]["exception"] == "builtins.KeyError"
        assert "test_worker.py" in body["details"]["at"]


def test_parameters_that_do_not_fit_fail_for_good_with_every_problem(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)
    worker.action("a.b")(lambda order: None)

    @worker.action("billing.charge")
    def charge(order: Charge) -> None:
        raise AssertionError("never called")

    task = fake.enqueue("billing.charge", {"cents": "many", "color": "red"})
    with running(worker):
        route, body = fake.reported(task)
    assert (route, body["code"], body["retriable"]) == ("fail", "PARAMETERS_INVALID", False)
    assert "$.customer: required and missing" in body["message"]
    assert "$.cents: expected an integer, got text" in body["message"]
    assert "$.color: unknown key" in body["message"]


@pytest.mark.parametrize("output", [float("nan"), object(), {1: 2}, "\ud800"])
def test_an_output_that_is_not_json_fails_for_good(fake: FakeServer, url: str, output: Any) -> None:
    worker = Worker(url)
    worker.action("a.b")(lambda: output)
    task = fake.enqueue("a.b")
    with running(worker):
        route, body = fake.reported(task)
    assert (route, body["code"], body["retriable"]) == ("fail", "OUTPUT_NOT_JSON", False)


def test_no_more_attempts_run_at_once_than_the_concurrency(fake: FakeServer, url: str) -> None:
    worker = Worker(url, concurrency=2)
    gate, lock = threading.Event(), threading.Lock()
    now, most = [0], [0]

    @worker.action("a.b")
    def action() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        gate.wait(PATIENCE)
        with lock:
            now[0] -= 1

    tasks = [fake.enqueue("a.b") for _ in range(6)]
    with running(worker):
        fake.until(lambda: most[0] == 2)
        gate.set()
        for task in tasks:
            fake.reported(task)
    assert most[0] == 2
    assert all(poll["slots"] + len(poll["holding"]) <= 2 for poll in fake.polls)


def test_heartbeats_go_on_while_a_function_blocks_the_loop(fake: FakeServer, url: str) -> None:
    worker = Worker(url)

    @worker.action("a.b")
    async def action(context: Context) -> int:
        context.heartbeat({"done": 1})
        before = len(fake.heartbeats)
        # On purpose: the loop of the actions stands still.
        while len(fake.heartbeats) < before + 3:
            time.sleep(0.005)  # noqa: ASYNC251
        return len(fake.heartbeats)

    task = fake.enqueue("a.b")
    with running(worker):
        assert fake.reported(task)[1]["output"] >= 3
    bodies = [body for _, body in fake.heartbeats]
    # One may be due before the function begins; what the function says is told once.
    told = bodies.index({"lease": "lease-1", "details": {"done": 1}})
    assert {"lease": "lease-1"} in bodies[told + 1 :]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_request_to_stop_is_an_exception_in_the_function(
    fake: FakeServer, url: str, asynchronous: bool
) -> None:
    worker = Worker(url)
    cleaned: list[str | None] = []

    @worker.action("async")
    async def action(context: Context) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except Cancelled:
            cleaned.append(context.stop_reason)
            raise

    @worker.action("plain")
    def plain(context: Context) -> None:
        try:
            context.sleep(PATIENCE)
        except Cancelled:
            cleaned.append(context.stop_reason)
            raise

    task = fake.enqueue("async" if asynchronous else "plain")
    with running(worker):
        fake.until(lambda: fake.heartbeats)
        fake.change(lambda: setattr(task, "stop", True))
        route, body = fake.reported(task)
    assert (route, body["code"]) == ("fail", "STOPPED")
    assert cleaned == ["the server asked the attempt to stop"]


def test_a_result_that_comes_in_spite_of_a_stop_is_reported(fake: FakeServer, url: str) -> None:
    worker = Worker(url)

    @worker.action("a.b")
    async def action(context: Context) -> str:
        with contextlib.suppress(Cancelled):
            await asyncio.sleep(PATIENCE)
        return "done all the same"

    task = fake.enqueue("a.b")
    task.stop = True
    with running(worker):
        assert fake.reported(task)[1]["output"] == "done all the same"


def test_an_attempt_that_takes_too_long_times_out_by_the_workers_clock(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)

    @worker.action("a.b")
    async def action() -> None:
        await asyncio.sleep(PATIENCE)

    # The deadline is long past by this machine's clock, which must not matter.
    task = fake.enqueue("a.b", None, timeoutMs=50, deadline="2001-01-01T00:00:00Z")
    with running(worker):
        route, body = fake.reported(task)
    assert (route, body["code"], body["retriable"]) == ("fail", "TIMEOUT", True)


def test_a_worker_that_is_refused_at_its_first_poll_says_why(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    worker.action("http.request")(lambda: None)
    fake.fault("poll", 403, code="ACTION_RESERVED")
    with pytest.raises(ApiError, match="ACTION_RESERVED"):
        asyncio.run(worker.run_async())


def test_a_worker_says_what_is_wrong_with_it() -> None:
    worker = Worker("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="no actions"):
        worker.run()
    worker.action("a.b")(lambda: None)
    with pytest.raises(ValueError, match="registered twice"):
        worker.action("a.b")(lambda: None)
    with pytest.raises(ValueError, match="not an action type"):
        worker.action("a b")(lambda: None)
    with pytest.raises(ValueError, match="address of a server"):
        Worker("127.0.0.1:7400")
    with pytest.raises(TypeError, match="labels"):
        Worker(labels="gpu")
    with pytest.raises(ValueError, match="at least 1"):
        Worker(concurrency=0)
