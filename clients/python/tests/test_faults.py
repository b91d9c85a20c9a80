"""The worker against a network and a server that fail: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from conftest import running
from fake_server import PATIENCE, FakeServer
from windlass import Cancelled, Context, Permanent, Worker


def counting(worker: Worker) -> list[int]:
    """An action `a.b` that counts its calls."""
    calls: list[int] = []

    @worker.action("a.b")
    async def action(context: Context) -> int:
        calls.append(context.attempt)
        return len(calls)

    return calls


def test_a_task_whose_poll_was_not_answered_comes_again(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    calls = counting(worker)
    fake.fault("poll", "drop-after")
    task = fake.enqueue("a.b")
    with running(worker):
        route, body = fake.reported(task)
    assert (route, body["lease"], calls) == ("complete", "lease-2", [1])
    assert fake.polls[1]["holding"] == []


@pytest.mark.parametrize("what", ["drop-before", 503, 500, 502, 429, 401])
def test_polls_are_repeated_after_failures(fake: FakeServer, url: str, what: str | int) -> None:
    worker = Worker(url)
    counting(worker)
    first = fake.enqueue("a.b")
    with running(worker):
        fake.reported(first)
        fake.fault("poll", what, times=2)
        # The poll that waits already brings this one, later polls the other.
        second = fake.enqueue("a.b")
        fake.reported(second)
        third = fake.enqueue("a.b")
        fake.reported(third)
    assert fake.take_fault("poll") is None


def test_a_worker_that_starts_before_its_server_waits_for_it(url: str, fake: FakeServer) -> None:
    worker = Worker(url)
    counting(worker)
    fake.fault("poll", 503, times=3)
    task = fake.enqueue("a.b")
    with running(worker):
        fake.reported(task)


@pytest.mark.parametrize("what", ["drop-before", "drop-after", 503, 500, 429, 401, 404])
def test_a_report_is_repeated_until_it_is_recorded(
    fake: FakeServer, url: str, what: str | int
) -> None:
    worker = Worker(url)
    calls = counting(worker)
    # 404 without a code of the server is a proxy's.
    fake.fault("complete", what, times=3, code="HTTP_404" if what == 404 else "STORE_FULL")
    task = fake.enqueue("a.b")
    with running(worker):
        fake.until(lambda: len(fake.reports) >= (4 if what == "drop-after" else 1))
        route, body = fake.reported(task)
    assert (route, body["output"], calls) == ("complete", 1, [1])
    assert all(body["output"] == 1 for _, _, body in fake.reports)


def test_heartbeats_go_on_while_a_report_is_repeated(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    counting(worker)
    fake.fault("complete", 503, times=4)
    task = fake.enqueue("a.b")
    with running(worker):
        fake.reported(task)
    assert fake.heartbeats


@pytest.mark.parametrize("what", ["drop-before", 503])
def test_progress_of_a_heartbeat_that_is_lost_comes_with_the_next(
    fake: FakeServer, url: str, what: str | int
) -> None:
    worker = Worker(url)
    told = {"lease": "lease-1", "details": {"done": 1}}

    @worker.action("a.b")
    def action(context: Context) -> None:
        context.heartbeat({"done": 1})
        end = time.monotonic() + PATIENCE
        while told not in [body for _, body in fake.heartbeats] and time.monotonic() < end:
            time.sleep(0.005)

    fake.fault("heartbeat", what)
    task = fake.enqueue("a.b")
    with running(worker):
        assert fake.reported(task)[0] == "complete"
    assert told in [body for _, body in fake.heartbeats]


@pytest.mark.parametrize("code", ["LEASE_LOST", "TASK_ENDED"])
def test_an_attempt_whose_lease_is_lost_stops_and_reports_nothing(
    fake: FakeServer, url: str, code: str
) -> None:
    worker = Worker(url)
    reasons: list[str | None] = []
    ended = threading.Event()

    @worker.action("a.b")
    async def action(context: Context) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except Cancelled:
            reasons.append(context.stop_reason)
            raise
        finally:
            ended.set()

    task = fake.enqueue("a.b")
    task.lost = code
    with running(worker):
        assert ended.wait(PATIENCE)
        # The slot is free again and the worker goes on.
        polls = len(fake.polls)
        fake.until(lambda: fake.polls[-1]["holding"] == [] and len(fake.polls) >= polls)
    assert reasons == [f"{code}: says {code}"]
    assert fake.reports == []


@pytest.mark.parametrize("code", ["LEASE_LOST", "TASK_ENDED"])
def test_a_report_that_is_refused_for_its_lease_is_not_repeated(
    fake: FakeServer, url: str, code: str
) -> None:
    worker = Worker(url, concurrency=1)
    counting(worker)
    fake.heartbeat_ms = 60_000
    fake.enqueue("a.b").lost = code
    with running(worker):
        # It polls again and again, so it has given the task up.
        fake.until(lambda: len(fake.polls) >= 4)
    assert len(fake.reports) == 1
    assert fake.polls[-1]["holding"] == []


def test_a_task_that_comes_again_while_it_runs_goes_on_under_the_new_lease(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)
    calls: list[int] = []
    go_on = threading.Event()
    fake.heartbeat_ms = 60_000

    @worker.action("a.b")
    def action() -> str:
        calls.append(1)
        go_on.wait(PATIENCE)
        return "once"

    task = fake.enqueue("a.b")
    with running(worker):
        # The server gives the lease up and hands the task to the same worker again.
        fake.until(lambda: calls and fake.polls[-1]["holding"] == [task.task_id])
        fake.change(lambda: setattr(task, "worker", None))
        fake.until(lambda: len(task.leases) == 2)
        # Its answer has arrived when the worker polls the next time.
        polls = len(fake.polls)
        fake.until(lambda: len(fake.polls) > polls)
        go_on.set()
        route, body = fake.reported(task)
    assert (route, body["lease"], body["output"], calls) == ("complete", "lease-2", "once", [1])


def test_a_lost_task_that_comes_back_to_a_function_that_did_not_stop_is_reported(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)
    stopped, go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    @worker.action("a.b")
    def action(context: Context) -> str:
        calls.append(1)
        with contextlib.suppress(Cancelled):
            context.sleep(PATIENCE)
        stopped.set()
        go_on.wait(PATIENCE)
        return "all the same"

    fake.fault("heartbeat", 409, code="LEASE_LOST")
    task = fake.enqueue("a.b")
    with running(worker):
        assert stopped.wait(PATIENCE)
        fake.change(lambda: setattr(task, "worker", None))
        # Heartbeats go on under the new lease.
        fake.until(lambda: any(body["lease"] == "lease-2" for _, body in fake.heartbeats))
        go_on.set()
        assert fake.reported(task)[1]["output"] == "all the same"
    assert calls == [1]


def test_a_failure_that_the_server_refuses_is_told_without_its_details(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)

    @worker.action("a.b")
    async def action() -> None:
        raise Permanent("no", code="NO", details={"much": "too much"})

    fake.fault("fail", 413, code="BODY_TOO_LARGE")
    task = fake.enqueue("a.b")
    with running(worker):
        _, body = fake.reported(task)
    assert (body["code"], body["message"], "details" in body) == ("NO", "no", False)


def test_a_report_that_a_new_lease_overtakes_is_sent_again_under_it(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)
    calls = counting(worker)
    fake.heartbeat_ms = 60_000
    task = fake.enqueue("a.b")
    task.relet = True
    with running(worker):
        route, body = fake.reported(task)
    assert (route, body["lease"], body["output"], calls) == ("complete", "lease-2", 1, [1])
    assert [body["lease"] for _, _, body in fake.reports] == ["lease-1", "lease-2"]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [(413, "BODY_TOO_LARGE", "OUTPUT_LIMIT"), (422, "BODY_INVALID", "OUTPUT_REFUSED")],
)
def test_an_output_that_the_server_refuses_fails_the_attempt(
    fake: FakeServer, url: str, status: int, code: str, expected: str
) -> None:
    worker = Worker(url)
    counting(worker)
    fake.fault("complete", status, code=code)
    task = fake.enqueue("a.b")
    with running(worker):
        route, body = fake.reported(task)
    assert (route, body["code"], body["retriable"]) == ("fail", expected, False)
    assert code in body["message"]


def test_heartbeats_survive_failures_of_the_server(fake: FakeServer, url: str) -> None:
    worker = Worker(url)

    @worker.action("a.b")
    async def action() -> str:
        while len(fake.heartbeats) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return "kept"

    for what in ("drop-before", "drop-after", 503, 500):
        fake.fault("heartbeat", what)
    task = fake.enqueue("a.b")
    with running(worker):
        assert fake.reported(task)[1]["output"] == "kept"


def test_an_answer_that_is_not_json_is_a_failed_poll(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    counting(worker)
    task = fake.enqueue("a.b", None, heartbeatMs="soon")
    with running(worker):
        fake.until(lambda: len(fake.polls) >= 2)
        fake.change(task.extra.clear)
        fake.reported(task)
