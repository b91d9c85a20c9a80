"""The worker: a registry of actions, and the threads that serve them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal, TypeVar

from windlass.action import Action
from windlass.execute import Executor
from windlass.logs import LOGGER
from windlass.session import Options, Session
from windlass.task import worker_name
from windlass.wire import Settings, Token

Function = TypeVar("Function", bound=Callable[..., Any])

# What the server accepts from one tenant; a worker with more would be refused at its first poll.
MOST_ACTIONS = 1000


class Worker:
    """Serves actions to a Windlass server.

    `url` and `token` default to `WINDLASS_SERVER` and `WINDLASS_TOKEN`; `token` may be a
    function that returns a fresh one. `concurrency` is how many attempts run at once. A node
    that `requires` labels goes only to workers that have them all. `name` must be unique per
    process; by default it is made of the host's name, the process id and a random part.
    `stop_timeout` is how many seconds a stopping worker lets attempts run on; `None` waits
    until they end.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: Token | None = None,
        concurrency: int = 10,
        labels: Iterable[str] = (),
        name: str | None = None,
        stop_timeout: float | None = None,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}: a worker runs at least 1 attempt")
        if isinstance(labels, str):
            raise TypeError("labels is a list of texts, not one text")
        self._settings = Settings.of(url, token, verify)
        self._options = Options(name or worker_name(), tuple(labels), concurrency, stop_timeout)
        self._actions: dict[str, Action] = {}
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._state: Literal["new", "running", "ended"] = "new"
        # Before a session is there to be told. A worker may be stopped before it has begun.
        self._stop_asked = False
        self._halt_asked = False

    @property
    def name(self) -> str:
        """The name by which the server knows this process."""
        return self._options.name

    @property
    def actions(self) -> Mapping[str, Action]:
        """What is registered, by action type; the test kit looks here."""
        return dict(self._actions)

    def action(self, action_type: str) -> Callable[[Function], Function]:
        """Registers the function below as the action type. The function itself stays as it is.

        The schema of its parameters is derived from the annotations and declared to the server,
        which checks every node's parameters against it.
        """

        def register(function: Function) -> Function:
            if action_type in self._actions:
                raise ValueError(f"the action {action_type!r} is registered twice")
            if len(self._actions) >= MOST_ACTIONS:
                raise ValueError(f"a worker declares at most {MOST_ACTIONS} action types")
            names = sys._getframe(1).f_locals
            self._actions[action_type] = Action(action_type, function, names)
            return function

        return register

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; then finishes what runs and returns.

        A second signal does not wait: attempts are asked to stop, and other workers get them.
        Signals reach the main thread only; in another one, `stop` ends it.
        """
        main = threading.current_thread() is threading.main_thread()
        asyncio.run(self.run_async(signals=main))

    async def run_async(self, *, signals: bool = False) -> None:
        """Serves until `stop` is called, `async` actions on the running loop.

        Cancelling it asks the attempts to stop and gives their tasks up. `signals` handles
        SIGTERM and SIGINT as `run` does, and needs the main thread.
        """
        if not self._actions:
            raise ValueError("the worker has no actions: register one with @worker.action(…)")
        with self._lock:
            if self._state == "running":
                raise RuntimeError("the worker runs already")
            self._state = "running"
        ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        executor = Executor(asyncio.get_running_loop())
        thread = threading.Thread(
            target=self._serve, args=(executor, ended), name="windlass worker", daemon=True
        )
        with self._signals(signals):
            thread.start()
            waiting = asyncio.wrap_future(ended)
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                self.halt()
                # What runs on this loop must get to end before the loop does.
                await asyncio.wait({waiting})
                raise

    def stop(self) -> None:
        """Polls no more, finishes what runs, then `run` returns. From any thread."""
        with self._lock:
            # One that has ended has nothing to stop, and may run again.
            if self._state != "ended":
                self._stop_asked = True
                self._tell(Session.stop)

    def halt(self) -> None:
        """Asks what runs to stop and gives its tasks up at once. From any thread."""
        with self._lock:
            if self._state != "ended":
                self._stop_asked = self._halt_asked = True
                self._tell(Session.halt)

    def _tell(self, what: Callable[[Session], None]) -> None:
        session, loop = self._session, self._loop
        if session is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(what, session)

    def _serve(self, executor: Executor, ended: concurrent.futures.Future[None]) -> None:
        """The thread of the protocol: polls, heartbeats, reports."""
        failure: BaseException | None = None
        try:
            asyncio.run(self._session_on_loop(executor))
        except BaseException as error:  # noqa: BLE001 - it is raised where `run` was called
            failure = error
        with self._lock:
            self._state = "ended"
            self._stop_asked = self._halt_asked = False
        if failure is None:
            ended.set_result(None)
        else:
            ended.set_exception(failure)

    async def _session_on_loop(self, executor: Executor) -> None:
        session = Session(self._settings, self._options, self._actions, executor)
        with self._lock:
            self._session, self._loop = session, asyncio.get_running_loop()
            # It may have been stopped before it began.
            if self._halt_asked:
                session.halt()
            elif self._stop_asked:
                session.stop()
        LOGGER.info(
            "worker %s serves %s at %s", self.name, ", ".join(self._actions), self._settings.url
        )
        try:
            await session.run()
        finally:
            with self._lock:
                self._session = self._loop = None
        LOGGER.info("worker %s has stopped", self.name)

    @contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        """Handles SIGTERM and SIGINT meanwhile, and puts back what was there."""
        if not wanted:
            yield
            return

        def handle(number: int, _frame: FrameType | None) -> None:
            name = signal.Signals(number).name
            # Not under the lock: a handler may interrupt the thread that holds it.
            if self._stop_asked:
                LOGGER.warning("%s again: what runs is given up", name)
                self._asked("_halt_asked", Session.halt)
            else:
                LOGGER.info("%s: what runs is finished, nothing new is taken", name)
                self._asked("_stop_asked", Session.stop)

        # Plain handlers instead of the loop's: they also run while an action blocks the loop.
        before = {number: signal.signal(number, handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, flag: str, what: Callable[[Session], None]) -> None:
        setattr(self, flag, True)
        self._tell(what)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
