"""Both clients against the fake server: the same calls, the same requests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from fake_server import FakeServer, error
from windlass import ApiError, AsyncClient, Client, RunNotSucceeded, Unreachable, WaitTimeout
from windlass.following import Deadline

RUN = "0192-run"


class Calls:
    """Calls either client from a plain test."""

    def __init__(self, asynchronous: bool, url: str, **options: Any) -> None:
        self._asynchronous = asynchronous
        self._url = url
        self._options = options

    def __call__(self, name: str, *arguments: Any, **options: Any) -> Any:
        if not self._asynchronous:
            with Client(self._url, **self._options) as client:
                result = getattr(client, name)(*arguments, **options)
                return list(result) if inspect.isgenerator(result) else result

        async def call() -> Any:
            async with AsyncClient(self._url, **self._options) as client:
                result = getattr(client, name)(*arguments, **options)
                if inspect.isasyncgen(result):
                    return [item async for item in result]
                return await result

        return asyncio.run(call())


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def calls(request: pytest.FixtureRequest, url: str) -> Callable[..., Any]:
    return Calls(request.param, url, token=lambda: "fresh")


def execution(status: str, **more: Any) -> dict[str, Any]:
    shape = {"executionId": RUN, "workflowId": "flow", "version": 2, "status": status}
    node = {"status": status, "attempts": 1, "output": 1, "error": None}
    return {**shape, "output": {"x": 1}, "error": None, "nodes": {"charge": node}, **more}


def event(position: int, kind: str = "NodeSucceeded") -> list[str]:
    data = (
        f'{{"v":1,"position":{position},"at":"2024-01-01T00:00:00Z","level":"info",'
        f'"category":"orchestrator","kind":"{kind}","data":{{}}}}'
    )
    return [f"event: {kind}", f"id: {position}", f"data: {data}", ""]


END = ["event: end", "data: {}", ""]


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")} - {"close", "aclose"}

    assert public(Client) == public(AsyncClient)
    for name in public(Client):
        sync, other = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.signature(sync).parameters == inspect.signature(other).parameters


def test_a_run_is_published_started_and_its_result_fetched(
    fake: FakeServer, calls: Callable[..., Any]
) -> None:
    bodies: list[dict[str, Any]] = []

    def publish(body: dict[str, Any]) -> tuple[int, Any]:
        bodies.append(body)
        return 201, {"workflowId": "flow", "version": 2, "created": True}

    def execute(body: dict[str, Any]) -> tuple[int, Any]:
        bodies.append(body)
        return 202, {"executionId": RUN, "status": "Pending", "statusUrl": "", "existing": False}

    statuses = ["Running", "Succeeded"]
    fake.routes["POST", "/api/v1/workflows"] = publish
    fake.routes["POST", "/api/v1/workflows/flow/execute"] = execute
    fake.routes["GET", f"/api/v1/executions/{RUN}"] = lambda _: (200, execution(statuses.pop(0)))
    fake.streams = [[*event(1), *END]]
    assert calls("publish", {"id": "flow", "nodes": []}).version == 2
    started = calls("start", "flow", {"cents": 5}, labels={"team": "x"}, priority=7)
    assert started.execution_id == RUN
    assert calls("result", RUN, timeout=30) == {"x": 1}
    assert bodies[0] == {"id": "flow", "nodes": []}
    request_id = bodies[1].pop("requestId")
    assert len(request_id) == 36
    assert bodies[1] == {"trigger": {"cents": 5}, "labels": {"team": "x"}, "priority": 7}
    assert set(fake.authorizations) == {"Bearer fresh"}


def test_a_start_that_was_not_answered_is_repeated_with_the_same_id(
    fake: FakeServer, calls: Callable[..., Any]
) -> None:
    ids: list[str] = []

    def execute(body: dict[str, Any]) -> tuple[int, Any]:
        ids.append(body["requestId"])
        existing = len(ids) > 1
        return 202, {"executionId": RUN, "status": "Pending", "statusUrl": "", "existing": existing}

    fake.routes["POST", "/api/v1/workflows/flow/execute"] = execute
    fake.fault("execute", "drop-after")
    fake.fault("execute", 503)
    assert calls("start", "flow").existing
    assert len(ids) == 2
    assert ids[0] == ids[1]


def test_commands_carry_a_key(fake: FakeServer, calls: Callable[..., Any]) -> None:
    bodies: dict[str, Any] = {}
    for name in ("signal", "cancel", "pause", "resume", "reattempt"):

        def answer(body: dict[str, Any], name: str = name) -> tuple[int, Any]:
            bodies[name] = body
            return 200, {"executionId": RUN, "workflowId": "flow", "status": "Running"}

        fake.routes["POST", f"/api/v1/executions/{RUN}/{name}"] = answer
    assert calls("signal", RUN, "approved", {"by": "sales"}).status == "Running"
    calls("cancel", RUN, reason="recall")
    calls("pause", RUN)
    calls("resume", RUN)
    calls("reattempt", RUN, ["charge"])
    assert bodies == {
        "signal": {"name": "approved", "payload": {"by": "sales"}},
        "cancel": {"reason": "recall"},
        "pause": {},
        "resume": {},
        "reattempt": {"nodes": ["charge"]},
    }
    keys = [headers["Idempotency-Key"] for headers in fake.headers]
    assert len(set(keys)) == 5


def test_events_go_on_after_a_lost_connection_each_once(
    fake: FakeServer, calls: Callable[..., Any]
) -> None:
    fake.streams = [
        [": ", "", *event(1), *event(2), "event: lagged", "data: {}", ""],
        [*event(2), *event(3), "event: draining", "data: {}", ""],
        [*event(4, "RunFinished")[:2]],
        [*event(4, "RunFinished"), *END],
    ]
    found = calls("events", RUN)
    assert [item.position for item in found] == [1, 2, 3, 4]
    assert found[-1].kind == "RunFinished"
    last = [headers["Last-Event-ID"] for headers in fake.headers]
    assert last == ["0", "2", "3", "3"]


def test_errors_say_what_the_server_said(fake: FakeServer, calls: Callable[..., Any]) -> None:
    with pytest.raises(ApiError) as refused:
        calls("execution", "none")
    assert (refused.value.status, refused.value.code) == (404, "NOT_FOUND")
    fake.routes["GET", f"/api/v1/executions/{RUN}"] = lambda _: (
        200,
        execution("Failed", error={"code": "NODE_FAILED", "message": "charge failed: NO"}),
    )
    with pytest.raises(RunNotSucceeded, match="charge failed: NO"):
        calls("result", RUN)
    assert calls("wait", RUN).nodes["charge"].output == 1


def test_what_is_not_repeatable_is_sent_once(fake: FakeServer, url: str) -> None:
    sent: list[int] = []

    def answer(_body: dict[str, Any]) -> tuple[int, Any]:
        sent.append(1)
        return 503, error("STORE_FULL")

    fake.routes["POST", "/api/v1/hooks"] = answer
    with Client(url) as client, pytest.raises(ApiError, match="STORE_FULL"):
        client.request("POST", "/api/v1/hooks", {"id": "x"})
    assert sent == [1]


def test_waiting_ends_with_its_time(fake: FakeServer, calls: Callable[..., Any]) -> None:
    fake.routes["GET", f"/api/v1/executions/{RUN}"] = lambda _: (200, execution("Running"))
    fake.streams = [event(1)] * 1000
    with pytest.raises(WaitTimeout, match="is Running"):
        calls("wait", RUN, timeout=0.05)


def test_a_deadline_is_never_outlived_by_a_read() -> None:
    now = [0.0]
    until = Deadline(25, clock=lambda: now[0])
    assert until.silence() == 10
    now[0] = 14.9
    assert not until.is_near()
    # A sign of life at 15.1 s: the next read may take until 25.1 s, so the connection is replaced.
    now[0] = 15.1
    assert until.is_near()
    assert until.silence() == pytest.approx(9.9)
    # Not at every event, though.
    now[0] = 15.2
    assert not until.is_near()
    assert not until.passed()
    assert until.bound(30) == pytest.approx(9.8)
    now[0] = 25.0
    assert until.passed()
    endless = Deadline(None, clock=lambda: now[0])
    assert (endless.silence(), endless.is_near(), endless.passed()) == (45, False, False)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_server_that_does_not_answer_is_named(asynchronous: bool) -> None:
    calls = Calls(asynchronous, "http://127.0.0.1:9", retry_seconds=0.3)
    with pytest.raises(Unreachable, match=r"no answer from http://127\.0\.0\.1:9"):
        calls("execution", RUN)
