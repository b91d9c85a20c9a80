"""Python values as JSON: outputs of actions, triggers of runs, payloads of signals."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any


class NotJson(TypeError):
    """A value that JSON cannot carry; the message names its place."""


def to_json(value: Any, place: str = "$") -> Any:
    """The value as dicts, lists, text, numbers, booleans and None."""
    if value is None or (isinstance(value, bool | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return to_json(value.value, place)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # JSON has neither NaN nor infinities; Python would write them all the same.
        if not math.isfinite(value):
            raise NotJson(f"{place} is {value}, which JSON does not have")
        return float(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {
            field.name: to_json(getattr(value, field.name), f"{place}.{field.name}")
            for field in fields
        }
    return _container_or_scalar(value, place)


def _container_or_scalar(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        return {_key(key, place): to_json(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, AbstractSet):
        # Sets have no order; two attempts should give the same output.
        items = [to_json(item, f"{place}[]") for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, Sequence):
        return [to_json(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    raise NotJson(
        f"{place} is {_article(value)}, which has no form in JSON: "
        "return a dataclass, a pydantic model, or dicts and lists"
    )


def _key(key: Any, place: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return key
    raise NotJson(f"a key of {place} is {_article(key)}: keys of JSON objects are text")


def _article(value: Any) -> str:
    return f"of the type {type(value).__qualname__}"


def dumps(value: Any) -> bytes:
    """JSON as it goes over the wire; refuses what is no JSON."""
    try:
        text = json.dumps(
            to_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotJson("a text holds a lone surrogate, which is not Unicode") from error
    except RecursionError as error:
        raise NotJson("the value is nested too deeply, or holds itself") from error
