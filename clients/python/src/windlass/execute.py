"""Running one function: decode, call, turn what it did into an outcome.

The worker and the test kit share this, so that a test sees what the engine would.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
from typing import Any

from windlass import telemetry
from windlass.action import Action
from windlass.context import Context
from windlass.logs import LOGGER, task_ids
from windlass.outcome import Failed, Outcome, Stopped, of_exception, of_return


async def perform_async(action: Action, context: Context) -> Outcome:
    """Runs an `async` function on this loop."""
    context.enter()
    with telemetry.attempt_span(context.task) as span:
        try:
            arguments = action.arguments(context.task.parameters, context)
            outcome = of_return(await action.function(**arguments), context)
        except (KeyboardInterrupt, SystemExit) as error:
            outcome = _exits(error)
        except BaseException as error:  # noqa: BLE001 - every way to end is an outcome
            outcome = of_exception(error, context)
            _log(outcome, error, context)
        span.finish(outcome)
    return outcome


def perform_sync(action: Action, context: Context) -> Outcome:
    """Runs a plain function in this thread."""
    context.enter()
    with telemetry.attempt_span(context.task) as span:
        try:
            arguments = action.arguments(context.task.parameters, context)
            result = action.function(**arguments)
            if inspect.isawaitable(result):
                # A callable that is not recognised as `async`, such as a partial of one.
                result = asyncio.run(_awaited(result))
            outcome = of_return(result, context)
        except (KeyboardInterrupt, SystemExit) as error:
            outcome = _exits(error)
        except BaseException as error:  # noqa: BLE001 - every way to end is an outcome
            outcome = of_exception(error, context)
            _log(outcome, error, context)
        span.finish(outcome)
    return outcome


class Executor:
    """Starts functions: `async` ones on the caller's loop, others in threads of their own.

    Neither is the loop that heartbeats run on, so a function that blocks holds up its own
    result and nothing else.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, action: Action, context: Context) -> concurrent.futures.Future[Outcome]:
        """Begins the attempt. The future never fails: its result says how the attempt ended."""
        done: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
        if action.is_async:
            self._start_async(action, context, done)
        else:
            # Daemons: a function that ignores requests to stop cannot keep the process alive.
            # One thread per attempt costs little beside the requests that each attempt makes.
            thread = threading.Thread(
                target=contextvars.copy_context().run,
                args=(lambda: done.set_result(perform_sync(action, context)),),
                name=f"windlass {context.task.action_type}",
                daemon=True,
            )
            thread.start()
        return done

    def _start_async(
        self, action: Action, context: Context, done: concurrent.futures.Future[Outcome]
    ) -> None:
        def begin() -> None:
            running = self._loop.create_task(perform_async(action, context))
            running.add_done_callback(lambda ended: done.set_result(result_of_task(ended, context)))
            context.on_stop(lambda: self._soon(running.cancel))

        if not self._soon(begin):
            done.set_result(Stopped("the event loop of the worker has ended"))

    def _soon(self, callback: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # The loop is closed: the process is ending.
            return False
        return True


async def _awaited(value: Any) -> Any:
    return await value


def result_of_task(ended: asyncio.Task[Outcome], context: Context) -> Outcome:
    """The outcome of a task that is done, also if it never began."""
    if ended.cancelled():
        # It was asked to stop before its first step.
        return Stopped(context.stop_reason or "the event loop of the worker has ended")
    error = ended.exception()
    return of_exception(error, context) if error is not None else ended.result()


def _exits(error: BaseException) -> Outcome:
    """`sys.exit()` in an action ends the attempt, never the worker that others share."""
    return Failed("ACTION_EXITED", f"the action called exit: {error!r}", retriable=False)


def _log(outcome: Outcome, error: BaseException, context: Context) -> None:
    ids = task_ids(context.task)
    if isinstance(outcome, Stopped):
        LOGGER.info("%s stopped: %s", context.task, outcome.reason, extra=ids)
    elif isinstance(outcome, Failed) and outcome.code == "UNHANDLED_EXCEPTION":
        LOGGER.error("%s raised", context.task, exc_info=error, extra=ids)
    elif isinstance(outcome, Failed):
        LOGGER.warning("%s failed: %s: %s", context.task, outcome.code, outcome.message, extra=ids)
