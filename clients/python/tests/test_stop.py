"""How a worker stops: signals, the time that is given, what becomes of its tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import running
from fake_server import PATIENCE, FakeServer
from windlass import Context, Worker

PROGRAM = """
import sys, time
from pathlib import Path
from windlass import Context, Worker

worker = Worker(sys.argv[1], concurrency=2)

@worker.action("slow.plain")
def plain(context: Context) -> str:
    while not Path(sys.argv[2]).exists():
        if sys.argv[3] == "polite":
            context.check()
        time.sleep(0.01)
    return "finished"

@worker.action("slow.async")
async def asynchronous() -> str:
    # Blocks the loop: a signal must be heard all the same.
    while not Path(sys.argv[2]).exists():
        time.sleep(0.01)
    return "finished"

worker.run()
print("returned")
"""


def start(url: str, gate: Path, manners: str = "polite") -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", PROGRAM, url, str(gate), manners]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("action", ["slow.plain", "slow.async"])
def test_a_signal_lets_what_runs_finish_and_takes_nothing_new(
    fake: FakeServer, url: str, tmp_path: Path, number: int, action: str
) -> None:
    task = fake.enqueue(action)
    process = start(url, tmp_path / "gate")
    try:
        fake.until(lambda: fake.heartbeats)
        process.send_signal(number)
        # Heartbeats go on, polls do not: the one that waited is given up.
        beats = len(fake.heartbeats)
        fake.until(lambda: len(fake.heartbeats) >= beats + 10 and fake.waiting == 0)
        polls = len(fake.polls)
        late = fake.enqueue(action)
        fake.until(lambda: len(fake.heartbeats) >= beats + 20)
        assert len(fake.polls) == polls
        (tmp_path / "gate").touch()
        assert fake.reported(task)[1]["output"] == "finished"
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, output) == (0, "returned\n")
    assert late.report is None


@pytest.mark.parametrize("manners", ["polite", "deaf"])
def test_a_second_signal_gives_up_what_runs(
    fake: FakeServer, url: str, tmp_path: Path, manners: str
) -> None:
    task = fake.enqueue("slow.plain")
    process = start(url, tmp_path / "gate", manners)
    try:
        fake.until(lambda: fake.heartbeats)
        process.send_signal(signal.SIGTERM)
        beats = len(fake.heartbeats)
        fake.until(lambda: len(fake.heartbeats) >= beats + 5)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, output) == (0, "returned\n")
    # Another worker gets it, as the same attempt.
    assert task.report is None


def test_after_the_stop_timeout_attempts_are_given_up(fake: FakeServer, url: str) -> None:
    worker = Worker(url, stop_timeout=0.05)
    reasons: list[str | None] = []

    @worker.action("a.b")
    async def action(context: Context) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            reasons.append(context.stop_reason)

    task = fake.enqueue("a.b")
    with running(worker):
        fake.until(lambda: fake.heartbeats)
    assert reasons == ["the worker is stopping"]
    assert task.report is None


def test_cancelling_run_async_gives_up_what_runs(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    ended = threading.Event()

    @worker.action("a.b")
    async def action() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.set()

    task = fake.enqueue("a.b")

    async def main() -> None:
        serving = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(fake.until, lambda: fake.heartbeats)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())
    assert ended.is_set()
    assert task.report is None


def test_a_worker_may_run_in_another_thread(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    worker.action("a.b")(lambda: 1)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    assert fake.reported(fake.enqueue("a.b"))[1]["output"] == 1
    worker.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_an_idle_worker_stops_at_once_and_can_run_again(fake: FakeServer, url: str) -> None:
    worker = Worker(url)
    worker.action("a.b")(lambda: 1)
    for _ in range(2):
        polls = len(fake.polls)
        with running(worker):
            fake.until(lambda: len(fake.polls) > polls)  # noqa: B023
    fake.until(lambda: fake.waiting == 0)
    task = fake.enqueue("a.b")
    with running(worker):
        assert fake.reported(task)[1]["output"] == 1


def test_stopping_counts_before_a_run_and_during_it_but_not_after(
    fake: FakeServer, url: str
) -> None:
    worker = Worker(url)
    worker.action("a.b")(lambda: 1)
    worker.stop()
    # It was stopped before it began, so this returns.
    asyncio.run(worker.run_async())
    assert fake.polls == []
    # It has ended, so this stops nothing.
    worker.stop()
    task = fake.enqueue("a.b")

    async def twice() -> None:
        serving = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(fake.reported, task)
        with pytest.raises(RuntimeError, match="runs already"):
            await worker.run_async()
        worker.stop()
        await serving

    asyncio.run(twice())


def test_a_process_that_is_killed_reports_nothing(
    fake: FakeServer, url: str, tmp_path: Path
) -> None:
    task = fake.enqueue("slow.plain")
    process = start(url, tmp_path / "gate")
    fake.until(lambda: fake.heartbeats)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    (tmp_path / "gate").touch()
    fake.until(lambda: fake.waiting == 0)
    # A second process gets the task when the server has given up the first one's lease.
    fake.change(lambda: setattr(task, "worker", None))
    other = start(url, tmp_path / "gate")
    try:
        assert fake.reported(task)[1]["output"] == "finished"
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=PATIENCE)
    finally:
        other.kill()
        other.wait()
    assert other.returncode == 0
