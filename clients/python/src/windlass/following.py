"""Following the events of a run through lost connections, apart from how lines arrive."""

from __future__ import annotations

import json

from windlass.backoff import Backoff
from windlass.errors import ApiError
from windlass.shapes import Event
from windlass.sse import Parser
from windlass.wire import PASSING

# The server gives a sign of life every 15 s; a connection that is silent for longer is dead.
SILENCE_SECONDS = 45.0


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
