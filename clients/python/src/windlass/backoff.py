"""Delays between repeated requests: exponential, with jitter, bounded."""

from __future__ import annotations

import random


class Backoff:
    """Delays that grow from `base` to `most` seconds, each a random part of its bound.

    The jitter keeps many workers from coming back to a restarted server at the same moment.
    """

    def __init__(
        self, base: float = 0.1, most: float = 5.0, source: random.Random | None = None
    ) -> None:
        self._base = base
        self._most = most
        self._random = source or random.Random()
        self._count = 0

    def next(self, at_least: float | None = None) -> float:
        """The next delay; `at_least` is what the server asked for, if it did."""
        # The exponent is bounded too: a float overflows after a day of failures.
        bound = min(self._most, self._base * 2.0 ** min(self._count, 32))
        self._count += 1
        # From half of the bound: a delay near zero would not relieve the server.
        delay = bound * (0.5 + self._random.random() / 2)
        return delay if at_least is None else max(delay, at_least)

    def reset(self) -> None:
        """Begins again: a request succeeded."""
        self._count = 0
