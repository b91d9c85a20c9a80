"""The worker and the client against the real server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import running
from fake_server import PATIENCE
from real_server import RealServer, real_server, token
from windlass import ApiError, Cancelled, Client, Context, Permanent, Retriable, Skip, Worker


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    with real_server(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: RealServer) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def node(action_type: str, **more: Any) -> dict[str, Any]:
    return {"id": "n", "actionType": action_type, **more}


def start(client: Client, definition: dict[str, Any], trigger: Any = None) -> str:
    published = client.publish({"id": "flow", **definition})
    return client.start(published.workflow_id, trigger).execution_id


@dataclass
class Sum:
    left: int
    right: int = 1


def test_a_node_is_served_and_its_attempt_recorded(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)

    @worker.action("py.add")
    def add(numbers: Sum, context: Context) -> dict[str, int]:
        """Adds two numbers."""
        context.meta["how"] = "by hand"
        context.resource("ledger", "entry", "e-1", "https://ledger.example/e-1")
        return {"sum": numbers.left + numbers.right}

    parameters = {"left": "{{ trigger.x }}"}
    with running(worker):
        run = start(client, {"nodes": [node("py.add", parameters=parameters)]}, {"x": 41})
        execution = client.wait(run, timeout=PATIENCE)
        listed = client.request("GET", "/api/v1/workers")
    assert execution.status == "Succeeded", execution.raw
    assert execution.nodes["n"].output == {"sum": 42}
    full = client.execution(run, include=["actions", "resources"]).raw
    (attempt,) = full["actions"]
    assert attempt["attempt"] == 1
    assert attempt["worker"] == worker.name
    assert full["resources"][0]["id"] == "e-1"
    assert worker.name in json.dumps(listed)
    declared = {each["name"]: each for each in client.request("GET", "/api/v1/actions")["items"]}
    assert declared["py.add"]["description"] == "Adds two numbers."
    assert "py.add" in server.cli("actions")


def test_retries_permanent_failures_and_skips(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)
    attempts: list[int] = []
    keys: set[str] = set()

    @worker.action("py.flaky")
    async def flaky(context: Context) -> str:
        attempts.append(context.attempt)
        keys.add(context.idempotency_key)
        if context.attempt < 3:
            raise Retriable("not yet", after=0.01)
        return "done"

    @worker.action("py.permanent")
    async def permanent() -> None:
        raise Permanent("never", code="NO_SUCH_THING", details={"x": 1})

    @worker.action("py.skip")
    async def skip() -> None:
        raise Skip

    policies = {"retry": {"maxAttempts": 5, "baseDelayMs": 1}}
    nodes = [
        {"id": "flaky", "actionType": "py.flaky", "policies": policies},
        {"id": "permanent", "actionType": "py.permanent", "policies": policies},
        {"id": "skip", "actionType": "py.skip"},
    ]
    with running(worker):
        execution = client.wait(start(client, {"nodes": nodes}), timeout=PATIENCE)
    assert execution.nodes["flaky"].output == "done"
    assert (attempts, len(keys)) == ([1, 2, 3], 1)
    failed = execution.nodes["permanent"]
    assert (failed.status, failed.attempts) == ("Failed", 1)
    assert failed.error is not None
    assert (failed.error["code"], failed.error["details"]) == ("NO_SUCH_THING", {"x": 1})
    assert execution.nodes["skip"].status == "Skipped"


def test_parameters_are_checked_by_the_declared_schema(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)
    calls: list[int] = []

    @worker.action("py.add")
    def add(numbers: Sum) -> int:
        calls.append(1)
        return 0

    with running(worker):
        rendered = node("py.add", parameters={"left": "{{ trigger.left }}"})
        run = start(client, {"nodes": [rendered]}, {"left": "many"})
        execution = client.wait(run, timeout=PATIENCE)
        # The type is declared by now: a literal that does not fit is refused at once.
        with pytest.raises(ApiError) as refused:
            start(client, {"nodes": [node("py.add", parameters={"left": "many"})]})
    assert refused.value.code == "DEFINITION_INVALID"
    assert execution.nodes["n"].error is not None
    assert execution.nodes["n"].error["code"] == "PARAMETERS_INVALID"
    assert calls == []


def test_cancelling_a_run_stops_its_function(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)
    begun, stopped = threading.Event(), threading.Event()

    @worker.action("py.slow")
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        except Cancelled:
            stopped.set()
            raise

    with running(worker):
        run = start(client, {"nodes": [node("py.slow")]})
        assert begun.wait(PATIENCE)
        client.cancel(run, reason="a test")
        assert stopped.wait(PATIENCE)
        execution = client.wait(run, timeout=PATIENCE)
    assert execution.status == "Cancelled"
    assert execution.nodes["n"].status in ("Cancelled", "Failed")


def test_a_timeout_ends_the_attempt_once(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)

    @worker.action("py.slow")
    def slow(context: Context) -> None:
        context.sleep(PATIENCE)

    with running(worker):
        run = start(client, {"nodes": [node("py.slow", policies={"timeoutMs": 300})]})
        execution = client.wait(run, timeout=PATIENCE)
    error = execution.nodes["n"].error
    assert error is not None
    assert (error["code"], execution.nodes["n"].attempts) == ("TIMEOUT", 1)


def test_a_worker_outlives_a_server_that_is_killed(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)
    calls: list[tuple[int, str]] = []
    begun, go_on = threading.Event(), threading.Event()

    @worker.action("py.long")
    def long(context: Context) -> str:
        calls.append((context.attempt, context.idempotency_key))
        begun.set()
        go_on.wait(PATIENCE)
        return "finished"

    with running(worker):
        run = start(client, {"nodes": [node("py.long")]})
        assert begun.wait(PATIENCE)
        server.kill()
        go_on.set()
        server.start()
        execution = client.wait(run, timeout=60)
        # And it serves on.
        again = client.wait(client.start("flow").execution_id, timeout=60)
    assert execution.status == again.status == "Succeeded", execution.raw
    assert execution.nodes["n"].output == "finished"
    assert execution.nodes["n"].attempts == 1
    assert {attempt for attempt, _ in calls} == {1}


PROGRAM = """
import os, sys, time
from pathlib import Path
from windlass import Context, Worker

worker = Worker(sys.argv[1])
folder = Path(sys.argv[2])

@worker.action("py.long")
def long(context: Context) -> int:
    (folder / f"begun-{os.getpid()}").write_text(f"{context.attempt} {context.idempotency_key}")
    while not (folder / "gate").exists():
        time.sleep(0.01)
    return os.getpid()

worker.run()
"""


def test_a_worker_that_is_cut_off_loses_its_task_to_another_and_is_refused_late(
    server: RealServer, client: Client, tmp_path: Path
) -> None:
    processes: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-c", PROGRAM, server.url, str(tmp_path)]
        processes.append(subprocess.Popen(arguments))
        return processes[-1]

    def begun(process: subprocess.Popen[bytes]) -> str:
        ends = time.monotonic() + 2 * PATIENCE
        path = tmp_path / f"begun-{process.pid}"
        while not path.exists() or not path.read_text():
            assert time.monotonic() < ends, "the worker never got the task"
            time.sleep(0.02)
        return path.read_text()

    try:
        first = begin()
        run = start(client, {"nodes": [node("py.long")]})
        identity = begun(first)
        first.send_signal(signal.SIGSTOP)
        second = begin()
        # The lease of the first ends; the second gets the same attempt under the same key.
        assert begun(second) == identity
        (tmp_path / "gate").touch()
        execution = client.wait(run, timeout=PATIENCE)
        first.send_signal(signal.SIGCONT)
        # It reports what it has, is refused, and goes on; so it stops as any other does.
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    again = client.execution(run)
    assert execution.nodes["n"].output == again.nodes["n"].output == second.pid
    assert again.nodes["n"].attempts == 1


def test_reserved_types_are_refused(server: RealServer) -> None:
    worker = Worker(server.url)
    worker.action("http.request")(lambda: None)
    with pytest.raises(ApiError, match="ACTION_RESERVED"):
        asyncio.run(worker.run_async())


def test_labels_decide_who_gets_a_node(server: RealServer, client: Client) -> None:
    plain, gpu = Worker(server.url), Worker(server.url, labels=["gpu", "eu"])
    plain.action("py.where")(lambda: "plain")
    gpu.action("py.where")(lambda: "gpu")
    with running(plain), running(gpu):
        run = start(client, {"nodes": [node("py.where", requires=["gpu"])]})
        assert client.wait(run, timeout=PATIENCE).nodes["n"].output == "gpu"


def test_an_output_past_the_limit_fails_the_node(server: RealServer, client: Client) -> None:
    worker = Worker(server.url)
    worker.action("py.big")(lambda: "x" * (11 * 1024 * 1024))
    with running(worker):
        execution = client.wait(start(client, {"nodes": [node("py.big")]}), timeout=PATIENCE)
    error = execution.nodes["n"].error
    assert error is not None
    assert error["code"] == "OUTPUT_LIMIT"


def test_many_tasks_go_through_several_workers_once_each(
    server: RealServer, client: Client
) -> None:
    calls: list[int] = []
    workers = [Worker(server.url, concurrency=5) for _ in range(3)]
    for worker in workers:

        @worker.action("py.square")
        async def square(x: int) -> int:
            calls.append(x)
            return x * x

    body = {"nodes": [{"id": "one", "actionType": "py.square", "parameters": {"x": "{{ item }}"}}]}
    items = "{{ trigger.items }}"
    loop = {"id": "all", "forEach": {"items": items, "maxConcurrency": 30, "body": body}}
    with running(workers[0]), running(workers[1]), running(workers[2]):
        run = start(client, {"nodes": [loop]}, {"items": list(range(100))})
        execution = client.wait(run, timeout=60)
    assert execution.status == "Succeeded", execution.raw
    assert execution.nodes["all"].output == [x * x for x in range(100)]
    assert sorted(calls) == list(range(100))


def test_no_task_is_lost_or_recorded_twice_while_the_server_is_killed(
    server: RealServer, client: Client
) -> None:
    workers = [Worker(server.url, concurrency=4) for _ in range(2)]
    begun = [0]
    for worker in workers:

        @worker.action("py.square")
        async def square(x: int) -> int:
            begun[0] += 1
            await asyncio.sleep(0.01)
            return x * x

    body = {"nodes": [{"id": "one", "actionType": "py.square", "parameters": {"x": "{{ item }}"}}]}
    items = "{{ trigger.items }}"
    loop = {"id": "all", "forEach": {"items": items, "maxConcurrency": 30, "body": body}}
    with running(workers[0]), running(workers[1]):
        run = start(client, {"nodes": [loop]}, {"items": list(range(120))})
        for bound in (10, 40, 80):
            ends = time.monotonic() + PATIENCE
            while begun[0] < bound:
                assert time.monotonic() < ends, "the workers got no more tasks"
                time.sleep(0.002)
            server.kill()
            server.start()
        execution = client.wait(run, timeout=90)
    assert execution.status == "Succeeded", execution.raw
    assert execution.nodes["all"].output == [x * x for x in range(120)]


def test_a_worker_needs_the_scope_and_serves_its_tenant_alone(tmp_path: Path) -> None:
    everything = ("workflows:manage", "workflows:execute", "workflows:read")
    acme = token(tmp_path, *everything, tenant="acme")
    options = ["--auth-keys", "keys.json"]
    with real_server(tmp_path, options) as server, Client(server.url, token=acme) as client:
        without = Worker(server.url, token=acme)
        without.action("py.who")(lambda: "without the scope")
        with pytest.raises(ApiError, match="FORBIDDEN"):
            asyncio.run(without.run_async())
        own = Worker(server.url, token=token(tmp_path, "workflows:work", tenant="acme"))
        other = Worker(server.url, token=token(tmp_path, "workflows:work", tenant="other"))
        own.action("py.who")(lambda: "acme")
        other.action("py.who")(lambda: "other")
        with running(other), running(own):
            runs = [start(client, {"nodes": [node("py.who")]}) for _ in range(5)]
            outputs = [client.wait(run, timeout=PATIENCE).nodes["n"].output for run in runs]
    assert outputs == ["acme"] * 5


def test_the_client_follows_and_signals(server: RealServer, client: Client) -> None:
    nodes = [
        {"id": "approve", "waitForSignal": {"name": "approved"}},
        {"id": "after", "actionType": "core.echo", "dependsOn": ["approve"]},
    ]
    run = start(client, {"nodes": nodes, "output": {"by": "{{ context.data['approve'].by }}"}})
    kinds = []
    for event in client.events(run):
        kinds.append(event.kind)
        if event.kind == "NodeWaiting":
            client.signal(run, "approved", {"by": "sales"})
    assert kinds[-1] == "RunFinished"
    assert client.result(run, timeout=PATIENCE) == {"by": "sales"}
    assert client.start("flow", request_id="same").existing is False
    assert client.start("flow", request_id="same").existing is True
