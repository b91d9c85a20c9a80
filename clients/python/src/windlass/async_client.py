"""The client for asyncio. `Client` has the same methods for plain programs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx

from windlass import requests
from windlass.errors import ApiError, RunNotSucceeded, WaitTimeout
from windlass.following import Deadline, Following
from windlass.repeating import Repeating
from windlass.requests import Request
from windlass.shapes import Acted, Event, Execution, Published, Started
from windlass.wire import Settings, Token, error_of, json_of

Answer = TypeVar("Answer")


class AsyncClient:
    """Publishes workflows, starts runs, waits for them, signals them and streams their events.

    `url` and `token` default to `WINDLASS_SERVER` and `WINDLASS_TOKEN`. Requests without an
    answer are repeated for `retry_seconds`; each has a key, so nothing is carried out twice.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: Token | None = None,
        timeout: float = 30.0,
        retry_seconds: float = 30.0,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self._settings = Settings.of(url, token, verify)
        self._retry_seconds = retry_seconds
        self._http = httpx.AsyncClient(base_url=self._settings.url, timeout=timeout, verify=verify)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def publish(self, definition: Mapping[str, Any] | str | bytes) -> Published:
        """Publishes a definition: a dict, or the text of a JSON or YAML file."""
        return await self._send(requests.publish(definition))

    async def start(
        self,
        workflow_id: str,
        trigger: Any = None,
        *,
        version: int | None = None,
        request_id: str | None = None,
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
    ) -> Started:
        """Starts a run. Two requests with the same `request_id` start one run."""
        options = requests.start_options(
            trigger, version, request_id, priority, labels, correlation_id
        )
        return await self._send(requests.start(workflow_id, options))

    async def execution(self, execution_id: str, include: Sequence[str] = ()) -> Execution:
        """A run as it stands now; `include` may name actions, resources and events."""
        return await self._send(requests.show(execution_id, include))

    async def wait(self, execution_id: str, timeout: float | None = None) -> Execution:
        """Waits until the run has ended; raises `WaitTimeout` after about `timeout` seconds."""
        until = Deadline(timeout)
        while True:
            execution = await self.execution(execution_id)
            if execution.ended:
                return execution
            if until.passed():
                raise WaitTimeout(f"run {execution_id} is {execution.status} after {timeout} s")
            async for _ in self._follow(execution_id, Following(), until):
                pass

    async def result(self, execution_id: str, timeout: float | None = None) -> Any:
        """The output of the run when it has succeeded; raises `RunNotSucceeded` otherwise."""
        execution = await self.wait(execution_id, timeout)
        if execution.status != "Succeeded":
            raise RunNotSucceeded(execution_id, execution.status, execution.error)
        return execution.output

    def events(self, execution_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The events of a run as they happen, each once, until the run ends.

        A lost connection is replaced, and the stream continues where it was. `after` is the
        position of the last event that is known already.
        """
        return self._follow(execution_id, Following(after), Deadline(None))

    async def signal(
        self, execution_id: str, name: str, payload: Any = None, *, reason: str | None = None
    ) -> Acted:
        """Gives a run a signal; one that comes early is kept."""
        body = {"name": name, "payload": payload, "reason": reason}
        return await self._send(requests.command(execution_id, "signal", body))

    async def cancel(self, execution_id: str, *, reason: str | None = None) -> Acted:
        """Cancels a run; running work is asked to stop."""
        return await self._send(requests.command(execution_id, "cancel", {"reason": reason}))

    async def pause(self, execution_id: str, *, reason: str | None = None) -> Acted:
        """Starts no new nodes of a run."""
        return await self._send(requests.command(execution_id, "pause", {"reason": reason}))

    async def resume(self, execution_id: str, *, reason: str | None = None) -> Acted:
        """Continues a paused run."""
        return await self._send(requests.command(execution_id, "resume", {"reason": reason}))

    async def reattempt(
        self, execution_id: str, nodes: Sequence[str] = (), *, reason: str | None = None
    ) -> Acted:
        """Tries failed nodes again: those named, or all that can be."""
        body = {"nodes": list(nodes), "reason": reason}
        return await self._send(requests.command(execution_id, "reattempt", body))

    async def request(
        self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None
    ) -> Any:
        """Any other route of the API: `await client.request("GET", "/api/v1/workers")`."""
        return await self._send(requests.raw(method, path, body, query))

    async def _send(self, request: Request[Answer]) -> Answer:
        repeating = Repeating(self._retry_seconds, request.repeatable)
        while True:
            try:
                response = await self._http.request(
                    request.method,
                    request.path,
                    content=request.body,
                    params=request.query,
                    headers={**self._settings.headers(), **request.headers},
                )
                return request.read(json_of(response))
            except ApiError as error:
                delay = repeating.after_refusal(error)
            except httpx.TransportError as error:
                delay = repeating.after_silence(error, self._settings.url)
            await asyncio.sleep(delay)

    async def _follow(
        self, execution_id: str, following: Following, until: Deadline
    ) -> AsyncIterator[Event]:
        """Events until the run ends or the deadline has passed."""
        while not following.ended:
            try:
                async for event in self._connection(execution_id, following, until):
                    yield event
                delay = following.after_break()
            except ApiError as error:
                delay = following.after_refusal(error)
            except httpx.TransportError:
                delay = following.after_break()
            if following.ended or until.passed():
                return
            await asyncio.sleep(until.bound(delay))

    async def _connection(
        self, execution_id: str, following: Following, until: Deadline
    ) -> AsyncIterator[Event]:
        silence = until.silence()
        headers = {**self._settings.headers(), **following.headers()}
        timeout = httpx.Timeout(10.0, read=silence)
        path = requests.events_path(execution_id)
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if not response.is_success:
                await response.aread()
                raise error_of(response)
            async for line in response.aiter_lines():
                event = following.line(line)
                if event is not None:
                    yield event
                if following.ended or until.is_near():
                    return
