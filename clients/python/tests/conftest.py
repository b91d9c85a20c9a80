"""Fixtures: a fake server, and workers that end with their test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fake_server import PATIENCE, FakeServer, serving
from windlass import Worker

Running = Callable[[Worker], object]


@pytest.fixture
def fake_and_url() -> Iterator[tuple[FakeServer, str]]:
    with serving() as (fake, url):
        yield fake, url


@pytest.fixture
def fake(fake_and_url: tuple[FakeServer, str]) -> FakeServer:
    return fake_and_url[0]


@pytest.fixture
def url(fake_and_url: tuple[FakeServer, str]) -> str:
    return fake_and_url[1]


@contextmanager
def running(worker: Worker) -> Iterator[threading.Thread]:
    """The worker in a thread; it has stopped by itself when this ends."""
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            asyncio.run(worker.run_async())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the worker does not stop"
    if errors:
        raise errors[0]
