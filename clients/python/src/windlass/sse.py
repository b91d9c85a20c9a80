"""Server-sent events: lines into messages. Must not know HTTP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One message of a stream."""

    kind: str
    data: str
    last_id: str | None


class Parser:
    """Takes lines, gives a message at each empty one (HTML Standard, section 9.2.6)."""

    def __init__(self) -> None:
        self._kind = ""
        self._data: list[str] = []
        self._id: str | None = None

    def line(self, line: str) -> Message | None:
        """The message that this line ends, if it ends one."""
        if line == "":
            return self._finish()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        # A line that begins with a colon is a sign of life.
        return None

    def _finish(self) -> Message | None:
        kind, data = self._kind, self._data
        self._kind, self._data = "", []
        if not data:
            return None
        return Message(kind or "message", "\n".join(data), self._id)
