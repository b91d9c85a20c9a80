"""The worker's side of the protocol: polling, and what is under way.

Runs on an event loop in a thread of its own, so that functions that block hold up neither
heartbeats nor completions. Must not know how functions are run; the executor does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from windlass.action import Action
from windlass.attempt import Attempt
from windlass.backoff import Backoff
from windlass.cancelling import cancel_all
from windlass.context import Context
from windlass.encode import dumps
from windlass.errors import ApiError
from windlass.execute import Executor
from windlass.logs import LOGGER
from windlass.task import Task
from windlass.wire import PASSING, Settings, json_of

PROTOCOL = 1

# The server waits at most 30 s. Some proxies cut connections that are silent for as long.
WAIT_MS = 25_000

# What the server hands out at once at most.
MOST_SLOTS = 1000

# How long past its wait an answer to a poll may take before it counts as lost.
ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class Options:
    """How a worker asks for work."""

    name: str
    labels: tuple[str, ...]
    concurrency: int
    stop_timeout: float | None
    wait_ms: int = WAIT_MS


class Session:
    """One worker, from its first poll until it has stopped."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        actions: Mapping[str, Action],
        executor: Executor,
    ) -> None:
        self._settings = settings
        self._options = options
        self._actions = dict(actions)
        self._executor = executor
        self._declared = [action.declaration() for action in self._actions.values()]
        self._attempts: dict[str, Attempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._halting = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._accepted = False

    def stop(self) -> None:
        """Polls no more; what runs is finished. Call it on the session's loop."""
        self._stopping.set()

    def halt(self) -> None:
        """Also asks what runs to stop, and gives its tasks up: other workers get them."""
        self._stopping.set()
        self._halting.set()

    async def run(self) -> None:
        """Serves until it is stopped; raises `ApiError` if the server refuses the worker."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        async with httpx.AsyncClient(
            base_url=self._settings.url, verify=self._settings.verify, limits=limits
        ) as http:
            try:
                await self._poll_until_stopped(http)
            finally:
                self._stopping.set()
                await self._drain()

    async def _poll_until_stopped(self, http: httpx.AsyncClient) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            free = self._options.concurrency - len(self._attempts)
            if free <= 0:
                self._slot_freed.clear()
                await self._first(self._slot_freed.wait())
                continue
            try:
                tasks = await self._first(self._poll(http, free))
            except (httpx.HTTPError, ApiError, ValueError, KeyError, TypeError) as error:
                delay = backoff.next(self._after_refusal(error))
                LOGGER.warning("a poll failed, the next one is in %.1f s: %s", delay, _text(error))
                await self._first(asyncio.sleep(delay))
                continue
            backoff.reset()
            for task in tasks or ():
                self._accept(http, task)

    def _after_refusal(self, error: Exception) -> float | None:
        """The delay that a refusal asks for; raises what repeating cannot mend.

        Before the first good answer a refusal means that this worker is set up wrongly: a
        reserved type, a token without the scope, a server without the protocol. Later it may
        pass, as when keys are exchanged, and what runs should not be lost to it.
        """
        if not isinstance(error, ApiError):
            return None
        if not self._accepted and 400 <= error.status < 500 and error.status not in PASSING:
            raise error
        return error.retry_after

    async def _poll(self, http: httpx.AsyncClient, slots: int) -> list[Task]:
        body: dict[str, Any] = {
            "protocol": PROTOCOL,
            "worker": self._options.name,
            "actions": self._declared,
            "slots": min(slots, MOST_SLOTS),
            "waitMs": self._options.wait_ms,
            # What is leased to this worker and not named here comes again at once: the answer
            # that carried it was lost.
            "holding": list(self._attempts),
        }
        if self._options.labels:
            body["labels"] = list(self._options.labels)
        seconds = self._options.wait_ms / 1000 + ANSWER_SECONDS
        response = await http.post(
            "/api/v1/workers/poll",
            content=dumps(body),
            headers={**self._settings.headers(), "Content-Type": "application/json"},
            timeout=httpx.Timeout(ANSWER_SECONDS, read=seconds),
        )
        answer = json_of(response)
        self._accepted = True
        return [Task.from_wire(data) for data in answer["tasks"]]

    def _accept(self, http: httpx.AsyncClient, task: Task) -> None:
        held = self._attempts.get(task.task_id)
        if held is not None:
            # The lease had ended, and this worker got the task again while its function still
            # runs: the same attempt under a new lease.
            held.adopt(task)
            return
        context = Context(task)
        attempt = Attempt(http, self._settings, task, context, self._halting)
        self._attempts[task.task_id] = attempt
        running = asyncio.create_task(self._run(attempt))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def _run(self, attempt: Attempt) -> None:
        action = self._actions.get(attempt.task.action_type)
        try:
            if action is None:
                await attempt.refuse_unknown()
            else:
                await attempt.run(self._executor.start(action, attempt.context))
        except Exception:  # noqa: BLE001 - one broken attempt must not end the worker
            LOGGER.exception("%s was given up", attempt.task)
        finally:
            self._attempts.pop(attempt.task.task_id, None)
            self._slot_freed.set()

    async def _drain(self) -> None:
        """Waits for what runs; after the time for that, gives it up."""
        if self._tasks:
            LOGGER.info("stopping: %d attempts are finished first", len(self._tasks))
        if self._tasks and not self._halting.is_set():
            halting = asyncio.create_task(self._halting.wait())
            either: set[asyncio.Future[Any]] = {halting, asyncio.gather(*self._tasks)}
            await asyncio.wait(
                either,
                timeout=self._options.stop_timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            halting.cancel()
        self._halting.set()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _first(self, work: Any) -> Any:
        """The result of the work, or None once the worker is stopping.

        An answer that has arrived is used even then: its tasks are leased to this worker.
        """
        doing = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            unfinished = [each for each in (doing, stopping) if not each.done()]
            await cancel_all(*unfinished)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
