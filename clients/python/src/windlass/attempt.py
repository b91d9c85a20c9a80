"""One attempt over HTTP: heartbeats, the time limit, and the report of its outcome.

The server decides who has a task. This file repeats what the server may not have heard, and
stops when the server says that another worker has the task or that the attempt has ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any
from urllib.parse import quote

import httpx

from windlass.backoff import Backoff
from windlass.cancelling import cancel_all
from windlass.context import Context
from windlass.encode import NotJson, dumps
from windlass.errors import ApiError
from windlass.logs import LOGGER, task_ids
from windlass.outcome import Completed, Failed, Outcome, Stopped, request_of
from windlass.task import Task
from windlass.wire import PASSING, Settings, error_of, json_of

# How long a report may take: outputs may have 10 MiB.
REPORT_SECONDS = 30.0

# How long a function gets to end after the worker was told to halt.
HALT_SECONDS = 5.0

TIMED_OUT = "the attempt has timed out"
STOP_ASKED = "the server asked the attempt to stop"
HALTED = "the worker is stopping"


class Attempt:
    """A task that this worker holds."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        settings: Settings,
        task: Task,
        context: Context,
        halting: asyncio.Event,
    ) -> None:
        self._http = http
        self._settings = settings
        self.task = task
        self.context = context
        self._halting = halting
        self._lease = task.lease
        # Set when the server said that the lease is lost or the attempt has ended.
        self._gone = asyncio.Event()

    def adopt(self, task: Task) -> None:
        """Continues under a new lease of the same task, also after the old one was lost."""
        LOGGER.info("%s continues under a new lease", self.task, extra=task_ids(self.task))
        self._lease = task.lease
        self._gone.clear()

    async def run(self, function: concurrent.futures.Future[Outcome]) -> None:
        """Keeps the lease while the function runs, then reports how it ended."""
        helpers = [
            asyncio.create_task(self._heartbeats()),
            asyncio.create_task(self._time_limit()),
            asyncio.create_task(self._halt()),
        ]
        try:
            outcome = await self._outcome(asyncio.wrap_future(function))
            # Heartbeats go on meanwhile: a report that is repeated for a minute needs its lease.
            if outcome is not None and not self._gone.is_set():
                await self._report(outcome)
        finally:
            await cancel_all(*helpers)

    async def refuse_unknown(self) -> None:
        """Fails a task of a type that this worker never declared."""
        message = f"this worker serves no {self.task.action_type}"
        await self._report(Failed("UNKNOWN_ACTION", message, retriable=True))

    async def _outcome(self, function: asyncio.Future[Outcome]) -> Outcome | None:
        """How the function ended; None if there is nothing to report."""
        halted = asyncio.create_task(self._halting.wait())
        either: set[asyncio.Future[Any]] = {function, halted}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not function.done():
                await asyncio.wait({function}, timeout=HALT_SECONDS)
        finally:
            halted.cancel()
        if not function.done():
            LOGGER.warning("%s does not stop and is left behind", self.task)
            return None
        outcome = function.result()
        if not isinstance(outcome, Stopped):
            return outcome
        if self.context.stop_reason == TIMED_OUT:
            # The server says the same, unless its timer is a little later than this one.
            return Failed("TIMEOUT", TIMED_OUT, retriable=True)
        # A worker that halts reports nothing: another gets the task, as the same attempt.
        return outcome if self.context.stop_reason == STOP_ASKED else None

    async def _time_limit(self) -> None:
        if self.task.timeout_ms is not None:
            await asyncio.sleep(self.task.timeout_ms / 1000)
            self.context.stop(TIMED_OUT)

    async def _halt(self) -> None:
        await self._halting.wait()
        self.context.stop(HALTED)

    async def _heartbeats(self) -> None:
        interval = self.task.heartbeat_ms / 1000
        backoff = Backoff(base=interval / 10, most=interval)
        delay = interval
        while True:
            await asyncio.sleep(delay)
            if self._gone.is_set():
                # A function that does not stop may still get a new lease.
                delay = interval
                continue
            lease = self._lease
            try:
                answer = json_of(await self._beat(lease, interval))
                backoff.reset()
                delay = interval
                if answer.get("stop"):
                    self.context.stop(STOP_ASKED)
            except ApiError as error:
                if self._is_gone(error, lease):
                    continue
                delay = backoff.next(error.retry_after)
                LOGGER.warning("a heartbeat of %s was refused: %s", self.task, error)
            except (httpx.HTTPError, ValueError, AttributeError) as error:
                # Sooner than the next one is due: three missed ones end the lease.
                delay = backoff.next()
                LOGGER.warning("a heartbeat of %s had no answer: %r", self.task, error)

    async def _beat(self, lease: str, interval: float) -> httpx.Response:
        details = self.context.take_progress()
        try:
            body = dumps({"lease": lease, **({} if details is None else {"details": details})})
        except NotJson as error:
            LOGGER.warning("progress of %s is not JSON and was left out: %s", self.task, error)
            body = dumps({"lease": lease})
            details = None
        taken = False
        try:
            response = await self._post("heartbeat", body, interval)
            taken = response.is_success
            return response
        finally:
            if not taken:
                self.context.keep_progress(details)

    def _is_gone(self, error: ApiError, lease: str) -> bool:
        """Whether the task is no longer this worker's; then the function is asked to stop."""
        final = error.status in (404, 409, 410) and not _by_proxy(error)
        if not final or lease != self._lease:
            return False
        LOGGER.warning("%s is lost: %s", self.task, error, extra=task_ids(self.task))
        self._gone.set()
        self.context.stop(f"{error.code}: {error.message}")
        return True

    async def _report(self, outcome: Outcome) -> None:
        """Repeats the report until it is recorded or refused for good."""
        backoff = Backoff()
        while not self._gone.is_set():
            lease = self._lease
            route, body = request_of(outcome, lease)
            after = None
            try:
                response = await self._post(route, body, REPORT_SECONDS)
                if response.is_success:
                    return
                error = error_of(response)
                if self._is_gone(error, lease):
                    return
                if lease != self._lease:
                    # A new lease arrived while this report was under way.
                    continue
                if not _may_pass(error):
                    instead = self._instead(outcome, error)
                    if instead is None:
                        return
                    outcome = instead
                    continue
                after = error.retry_after
                LOGGER.warning("the report of %s is repeated: %s", self.task, error)
            except httpx.HTTPError as error:
                LOGGER.warning(
                    "the report of %s had no answer and is repeated: %r", self.task, error
                )
            if not await self._pause(backoff.next(after)):
                LOGGER.error("%s ended and its outcome could not be reported", self.task)
                return

    def _instead(self, outcome: Outcome, error: ApiError) -> Outcome | None:
        """What to report when the server refuses the report itself."""
        LOGGER.error("the outcome of %s was refused: %s", self.task, error)
        if isinstance(outcome, Failed) and outcome.details is not None:
            # A refused failure would come again and fail the same way: say less of it.
            return Failed(outcome.code, outcome.message[:500], outcome.retriable)
        if not isinstance(outcome, Completed):
            return None
        if error.status == 413:
            size = len(outcome.encoded)
            return Failed("OUTPUT_LIMIT", f"the output has {size} bytes: {error}", retriable=False)
        return Failed("OUTPUT_REFUSED", f"the server refused the output: {error}", retriable=False)

    async def _pause(self, seconds: float) -> bool:
        """Waits; False when the worker was told to halt."""
        waiting = [
            asyncio.create_task(self._halting.wait()),
            asyncio.create_task(self._gone.wait()),
        ]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        return not self._halting.is_set()

    async def _post(self, route: str, body: bytes, seconds: float) -> httpx.Response:
        return await self._http.post(
            f"/api/v1/workers/tasks/{quote(self.task.task_id, safe='')}/{route}",
            content=body,
            headers={**self._settings.headers(), "Content-Type": "application/json"},
            timeout=seconds,
        )


def _by_proxy(error: ApiError) -> bool:
    """Whether something before the server answered: every error of the server has a code."""
    return error.code.startswith("HTTP_")


def _may_pass(error: ApiError) -> bool:
    """Whether the same report may be taken later. Tokens expire and are renewed."""
    if error.status in PASSING or error.status in (401, 403) or error.status >= 500:
        return True
    return _by_proxy(error) and error.status != 413
