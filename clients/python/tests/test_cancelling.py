"""Tasks end though a cancellation was taken for something else."""

from __future__ import annotations

import asyncio

from windlass.cancelling import cancel_all


def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    swallowed = 0

    async def deaf() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed > 1:
                    raise

    async def failing() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise ValueError("it ends otherwise")

    async def stop_all() -> list[bool]:
        tasks = [asyncio.create_task(deaf()), asyncio.create_task(failing())]
        tasks.append(asyncio.create_task(asyncio.sleep(0)))
        await asyncio.sleep(0.01)
        await cancel_all(*tasks)
        return [task.done() for task in tasks]

    assert asyncio.run(stop_all()) == [True, True, True]
    assert swallowed == 2
