"""HTTP as both clients and the worker speak it: headers, errors, which requests to repeat."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from windlass import telemetry
from windlass.errors import ApiError

Token = str | Callable[[], str]

DEFAULT_URL = "http://127.0.0.1:7400"

# Statuses after which the same request may succeed.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Settings:
    """Where the server is and how to be let in."""

    url: str
    token: Token | None = field(default=None, repr=False)
    verify: ssl.SSLContext | bool = True

    @classmethod
    def of(cls, url: str | None, token: Token | None, verify: ssl.SSLContext | bool) -> Settings:
        """Arguments, then `WINDLASS_SERVER` and `WINDLASS_TOKEN`, then a server on this machine."""
        url = url or os.environ.get("WINDLASS_SERVER") or DEFAULT_URL
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{url!r} is not the address of a server: write http://host:port")
        return cls(url.rstrip("/"), token or os.environ.get("WINDLASS_TOKEN") or None, verify)

    def headers(self) -> dict[str, str]:
        """Headers of a request. A token that is a function is asked each time: it may expire."""
        headers = {"Accept": "application/json"}
        token = self.token() if callable(self.token) else self.token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        telemetry.inject(headers)
        return headers


def json_of(response: httpx.Response) -> Any:
    """The JSON of a good answer; raises `ApiError` for any other."""
    if not response.is_success:
        raise error_of(response)
    try:
        return response.json()
    except ValueError as error:
        # A proxy's page, or half of an answer.
        raise ApiError(response.status_code, "ANSWER_INVALID", "the answer is not JSON") from error


def error_of(response: httpx.Response) -> ApiError:
    """The error that an answer tells of, of the server or of a proxy before it."""
    try:
        body = response.json()
    except ValueError:
        body = None
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        error = {}
    status = response.status_code
    return ApiError(
        status,
        str(error.get("code") or f"HTTP_{status}"),
        str(error.get("message") or response.reason_phrase or "the server refused the request"),
        hint=error.get("hint"),
        details=error.get("details") or (),
        correlation_id=error.get("correlationId") or response.headers.get("x-correlation-id"),
        retry_after=retry_after(response.headers.get("retry-after")),
    )


def retry_after(value: str | None) -> float | None:
    """`Retry-After` in seconds: a number or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
