"""A server in the wire format of the worker protocol, with faults on request.

It keeps what it was sent, so that tests wait for facts instead of for time to pass.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Long enough for any machine; a test that needs it has failed.
PATIENCE = 30.0
POLL_SECONDS = 0.2


@dataclass
class FakeTask:
    """A task and who has it."""

    task_id: str
    action_type: str
    parameters: Any
    extra: dict[str, Any]
    leases: list[str] = field(default_factory=list)
    worker: str | None = None
    # The first report that was recorded: route and body.
    report: tuple[str, dict[str, Any]] | None = None
    stop: bool = False
    # Answers of heartbeats and reports: LEASE_LOST or TASK_ENDED.
    lost: str | None = None
    # Whether the first report comes while the task is handed out again, to the same worker.
    relet: bool = False


@dataclass
class Fault:
    """What to do with the next requests of a route: drop the answer, or refuse."""

    route: str
    times: int
    # "drop-before": not carried out; "drop-after": carried out and not answered; or a status.
    what: str | int
    headers: dict[str, str] = field(default_factory=dict)
    code: str = "STORE_FULL"


class FakeServer:
    """The state behind the handler, under one lock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: dict[str, FakeTask] = {}
        self._faults: list[Fault] = []
        self.polls: list[dict[str, Any]] = []
        self.heartbeats: list[tuple[str, dict[str, Any]]] = []
        self.reports: list[tuple[str, str, dict[str, Any]]] = []
        self.authorizations: list[str | None] = []
        self.headers: list[dict[str, str]] = []
        # Answers of other routes by method and path: status and body, or a function of the body.
        self.routes: dict[tuple[str, str], Callable[[dict[str, Any]], tuple[int, Any]]] = {}
        # Each connection of an event stream takes the next list of lines.
        self.streams: list[list[str]] = []
        self.heartbeat_ms = 20
        # Polls that wait for work.
        self.waiting = 0
        self.closing = False

    def enqueue(self, action_type: str, parameters: Any = None, **extra: Any) -> FakeTask:
        with self._changed:
            task_id = f"run-1/node-{len(self._tasks)}/1"
            task = FakeTask(task_id, action_type, parameters, extra)
            self._tasks[task_id] = task
            self._changed.notify_all()
            return task

    def fault(self, route: str, what: str | int, times: int = 1, **more: Any) -> None:
        with self._changed:
            self._faults.append(Fault(route, times, what, **more))

    def change(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    def until(self, fact: Callable[[], Any]) -> Any:
        """Waits until the fact is true, and gives it."""
        with self._changed:
            ends = time.monotonic() + PATIENCE
            while not (found := fact()):
                left = ends - time.monotonic()
                assert left > 0, f"waited in vain; reports: {self.reports}"
                self._changed.wait(min(left, 0.05))
            return found

    def reported(self, task: FakeTask) -> tuple[str, dict[str, Any]]:
        """The recorded report of the task."""
        self.until(lambda: task.report is not None)
        assert task.report is not None
        return task.report

    def take_fault(self, route: str) -> Fault | None:
        with self._changed:
            for fault in self._faults:
                if fault.route == route and fault.times > 0:
                    fault.times -= 1
                    return fault
            return None

    def poll(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            self.polls.append(body)
            self._changed.notify_all()
            # Shorter than what was asked for, so that tests see what the next poll holds.
            ends = time.monotonic() + min(body["waitMs"] / 1000, POLL_SECONDS)
            self.waiting += 1
            try:
                while not (tasks := self._hand_out(body)) and not self.closing:
                    left = ends - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                return {"tasks": tasks}
            finally:
                self.waiting -= 1
                self._changed.notify_all()

    def _hand_out(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        served = {declared["actionType"] for declared in body["actions"]}
        found: list[dict[str, Any]] = []
        for task in self._tasks.values():
            free = task.worker is None or (
                task.worker == body["worker"] and task.task_id not in body["holding"]
            )
            # One that is lost was handed out once and is another worker's now.
            lost = task.lost is not None and task.leases
            wanted = task.report is None and task.action_type in served and not lost
            if len(found) < body["slots"] and free and wanted:
                found.append(self.lease_to(task, body["worker"]))
        return found

    def lease_to(self, task: FakeTask, worker: str) -> dict[str, Any]:
        task.worker = worker
        task.leases.append(f"lease-{len(task.leases) + 1}")
        return {
            "taskId": task.task_id,
            "lease": task.leases[-1],
            "executionId": "run-1",
            "workflowId": "flow",
            "version": 1,
            "node": task.task_id.split("/")[1],
            "attempt": 1,
            "actionType": task.action_type,
            "parameters": task.parameters,
            "idempotencyKey": "run-1/node",
            "timeoutMs": 60_000,
            "deadline": "2030-01-01T00:00:00Z",
            "heartbeatMs": self.heartbeat_ms,
            "traceparent": None,
            "unknownKeyOfALaterServer": True,
            **task.extra,
        }

    def of_task(self, task_id: str, route: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._changed:
            if route == "heartbeat":
                self.heartbeats.append((task_id, body))
            else:
                self.reports.append((task_id, route, body))
            task = self._tasks.get(task_id)
            if task is not None and task.relet and route != "heartbeat":
                self._relet(task)
            answer = self._judge(task, route, body)
            self._changed.notify_all()
            return answer

    def _relet(self, task: FakeTask) -> None:
        """Hands the task out again; its answer has arrived when the worker polls after it."""
        task.relet, task.worker = False, None
        self._changed.notify_all()
        self._changed.wait_for(lambda: len(task.leases) == 2, PATIENCE)
        polls = len(self.polls)
        self._changed.wait_for(lambda: len(self.polls) > polls, PATIENCE)

    def _judge(self, task: FakeTask | None, route: str, body: dict[str, Any]) -> tuple[int, Any]:
        if task is None:
            return 404, error("TASK_NOT_FOUND")
        if task.lost:
            return 409, error(task.lost)
        if body["lease"] != task.leases[-1]:
            return 409, error("LEASE_LOST")
        if route == "heartbeat":
            return 200, {"stop": task.stop}
        if task.report is None:
            task.report = (route, body)
        return 200, {}


def error(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": f"says {code}", "details": []}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeServer

    def log_message(self, *_arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/events"):
            self._stream()
        else:
            self._answer_with({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        self._answer_with(json.loads(data) if data else {})

    def _answer_with(self, body: dict[str, Any]) -> None:
        route = self.path.rsplit("/", 1)[-1]
        self.fake.authorizations.append(self.headers.get("Authorization"))
        self.fake.headers.append(dict(self.headers.items()))
        fault = self.fake.take_fault(route)
        if fault is not None and fault.what == "drop-before":
            self._drop()
        elif fault is not None and isinstance(fault.what, int):
            self._send(fault.what, error(fault.code), fault.headers)
        else:
            status, answer = self._carry_out(route, body)
            if fault is not None:
                self._drop()
            else:
                self._send(status, answer, {})

    def _carry_out(self, route: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self.path == "/api/v1/workers/poll":
            return 200, self.fake.poll(body)
        parts = self.path.split("/")
        if parts[3:5] == ["workers", "tasks"]:
            task_id = parts[5].replace("%2F", "/")
            return self.fake.of_task(task_id, route, body)
        handler = self.fake.routes.get((self.command, self.path))
        return handler(body) if handler else (404, error("NOT_FOUND"))

    def _send(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        data = json.dumps(answer).encode() if not isinstance(answer, bytes) else answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        self.fake.headers.append(dict(self.headers.items()))
        lines = self.fake.streams.pop(0)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(f"{line}\n".encode())
        self.close_connection = True

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A dropped connection is what the test asked for."""


@contextmanager
def serving() -> Iterator[tuple[FakeServer, str]]:
    """A fake server on a free port of this machine, and its address."""
    fake = FakeServer()
    handler = type("Handler", (_Handler,), {"fake": fake})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield fake, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        fake.change(lambda: setattr(fake, "closing", True))
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
