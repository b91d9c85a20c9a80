"""When the client repeats a request, decided apart from how it sends and sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.backoff import Backoff
from windlass.errors import ApiError, Unreachable
from windlass.wire import PASSING


class Repeating:
    """The attempts at one request, bounded by `seconds` in all."""

    def __init__(
        self,
        seconds: float,
        repeatable: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._ends = clock() + seconds
        self._repeatable = repeatable
        self._backoff = Backoff()

    def after_refusal(self, error: ApiError) -> float:
        """The delay before the next attempt; raises the error where there is none."""
        # What was refused for its rate was not carried out, whatever it is.
        allowed = error.status == 429 or (self._repeatable and error.status in PASSING)
        delay = self._backoff.next(error.retry_after)
        if not allowed or self._clock() + delay > self._ends:
            raise error
        return delay

    def after_silence(self, error: Exception, url: str) -> float:
        """The delay after a request without an answer; raises `Unreachable` after the last."""
        delay = self._backoff.next()
        if not self._repeatable or self._clock() + delay > self._ends:
            text = str(error) or type(error).__name__
            raise Unreachable(
                f"no answer from {url}: {text}; check the address, and that the server runs"
            ) from error
        return delay
