"""Following the events of a run through lost connections, apart from how lines arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from windlass.backoff import Backoff
from windlass.errors import ApiError
from windlass.shapes import Event
from windlass.sse import Parser
from windlass.wire import PASSING

# The server gives a sign of life every 15 s; a connection that is silent for longer is dead.
SILENCE_SECONDS = 45.0


# A reader with a deadline waits for no longer in one read, so that it can look at it between.
DEADLINE_SECONDS = 10.0

# A connection is used for so long before the deadline is a reason to replace it.
CONNECTION_SECONDS = 0.25


class Deadline:
    """When a reader gives up, if it ever does.

    A read of httpx cannot be given less time than its connection was. So a connection that could
    read past the deadline is replaced by one that cannot.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = None if seconds is None else clock() + seconds
        self._began = clock()
        self._silence = SILENCE_SECONDS

    def passed(self) -> bool:
        """Whether the time is over."""
        return self._ends is not None and self._clock() >= self._ends

    def bound(self, delay: float) -> float:
        """The delay, cut at the deadline."""
        return delay if self._ends is None else max(0.0, min(delay, self._ends - self._clock()))

    def silence(self) -> float:
        """How long a new connection may be silent."""
        self._began = self._clock()
        if self._ends is not None:
            left = self._ends - self._began
            self._silence = max(0.001, min(left, DEADLINE_SECONDS))
        return self._silence

    def is_near(self) -> bool:
        """Whether the next read of this connection could outlast the deadline."""
        if self._ends is None:
            return False
        now = self._clock()
        return self._ends - now < self._silence and now - self._began > CONNECTION_SECONDS


class Following:
    """Where a reader is in a run's events, over all of its connections."""

    def __init__(self, after: int = 0) -> None:
        self._position = after
        self._parser = Parser()
        self._backoff = Backoff()
        self.ended = False

    def headers(self) -> dict[str, str]:
        """Headers of the next connection: it goes on after the last event that arrived."""
        self._parser = Parser()
        return {"Accept": "text/event-stream", "Last-Event-ID": str(self._position)}

    def line(self, line: str) -> Event | None:
        """The event that this line completes. Sets `ended` at the end of the run."""
        message = self._parser.line(line)
        if message is None:
            return None
        if message.kind == "end":
            self.ended = True
            return None
        if message.kind in ("lagged", "draining", "expired"):
            # The stream ends here and the run goes on: the next connection carries on.
            return None
        event = Event.from_wire(json.loads(message.data))
        if event.position <= self._position:
            return None
        self._position = event.position
        self._backoff.reset()
        return event

    def after_refusal(self, error: ApiError) -> float:
        """The delay before the next connection; raises what repeating cannot mend."""
        if error.status not in PASSING:
            raise error
        return self._backoff.next(error.retry_after)

    def after_break(self) -> float:
        """The delay before the next connection after one broke off."""
        return self._backoff.next()
