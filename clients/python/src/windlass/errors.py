"""The exceptions of this package: what actions raise, and what the client raises.

Must not know HTTP or workers; it only names what can go wrong.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

# Raised inside an action when its attempt is asked to stop: the run was cancelled, the attempt
# timed out, another worker has the task, or this worker is stopping. It is asyncio's own
# exception, so that `except Exception` does not swallow it and `async` libraries clean up
# after it as they already do; plain functions get it from `Context.check` and `Context.sleep`.
Cancelled = asyncio.CancelledError

# What the engine accepts as an error code.
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}")


class WindlassError(Exception):
    """The base of every error of this package."""


class ActionError(WindlassError):
    """An action failed. Raise `Retriable` or `Permanent`, which say what happens next."""

    retriable: bool = False

    def __init__(
        self,
        message: str = "the action failed",
        *,
        code: str = "ACTION_FAILED",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        if not _CODE.fullmatch(code):
            raise ValueError(
                f"{code!r} is not an error code: use letters, digits and . _ / : -, "
                "at most 128, beginning with a letter or digit"
            )
        self.message = message
        self.code = code
        self.details = dict(details) if details is not None else None

    @property
    def retry_after(self) -> float | None:
        """Seconds before the next attempt at least; `None` leaves it to the retry policy."""
        return None


class Retriable(ActionError):
    """The attempt failed and another may succeed.

    Whether there is another is the node's retry policy. `after`, in seconds, is the shortest
    delay before it; the policy's own may be longer, and the server has a limit (1 h by default).
    """

    retriable = True

    def __init__(
        self,
        message: str = "the action asks for another attempt",
        *,
        after: float | timedelta | None = None,
        code: str = "ACTION_FAILED",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details)
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        # The comparison is false for NaN as well.
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise ValueError(f"after is {seconds}: give the seconds to wait, 0 or more")
        self._after = seconds

    @property
    def retry_after(self) -> float | None:
        """Seconds before the next attempt at least."""
        return self._after


class Permanent(ActionError):
    """The attempt failed and no other can succeed: the node fails at once."""


class Skip(WindlassError):
    """The action has nothing to do: its node is Skipped, and so is what only follows it."""


class ParametersInvalid(Permanent):
    """The parameters do not fit the action's parameter type."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems), code="PARAMETERS_INVALID")
        self.problems = list(problems)


class ApiError(WindlassError):
    """The server refused a request."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        details: Sequence[Mapping[str, Any]] = (),
        correlation_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code} ({status}): {message}" + (f" ({hint})" if hint else ""))
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.details = list(details)
        self.correlation_id = correlation_id
        self.retry_after = retry_after


class Unreachable(WindlassError):
    """The server gave no answer, although the request was repeated."""


class WaitTimeout(WindlassError, TimeoutError):
    """The run had not ended when the time was over. It continues."""


class RunNotSucceeded(WindlassError):
    """A run whose result was asked for failed or was cancelled."""

    def __init__(self, execution_id: str, status: str, error: Mapping[str, Any] | None) -> None:
        self.execution_id = execution_id
        self.status = status
        self.error = dict(error) if error is not None else None
        reason = f": {error.get('message')}" if error else ""
        super().__init__(f"run {execution_id} ended {status}{reason}")
