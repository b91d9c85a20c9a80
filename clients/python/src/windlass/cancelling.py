"""Cancelling that does not rest on one try."""

from __future__ import annotations

import asyncio
from typing import Any

# How long a task may take to end before it is cancelled again.
AGAIN_SECONDS = 0.5


async def cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancels tasks and waits until they have ended, however they do.

    A library that bounds a request by time may take a cancellation that comes with the end of that
    time for its own, and go on; a process that stood still meets both at once. So it is repeated.
    """
    open_tasks = {task for task in tasks if not task.done()}
    while open_tasks:
        for task in open_tasks:
            task.cancel()
        _, open_tasks = await asyncio.wait(open_tasks, timeout=AGAIN_SECONDS)
    for task in tasks:
        if not task.cancelled():
            # Read, so that it is not reported as never retrieved.
            task.exception()
