"""JSON into Python types: what an action's function gets as its parameters.

Every problem is collected with its place, not only the first.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import sys
import uuid
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, get_args, get_origin, is_typeddict

from windlass.errors import ParametersInvalid
from windlass.typing_forms import (
    LISTS,
    MAPPINGS,
    Member,
    is_literal,
    is_model,
    is_record,
    is_union,
    members,
    plain,
)


def decode(annotation: Any, value: Any) -> Any:
    """The value as the annotated type; raises `ParametersInvalid` with every problem."""
    decoder = _Decoder()
    result = decoder.of(annotation, value, "$")
    decoder.finish()
    return result


def decode_members(parameters: Sequence[Member], value: Any) -> dict[str, Any]:
    """The members of an object by name; members that have defaults may be missing."""
    decoder = _Decoder()
    result = decoder.object_of(parameters, value, "$")
    decoder.finish()
    return result or {}


class _Mismatch(Exception):
    """A value does not fit; the problem has been noted."""


class _Decoder:
    def __init__(self) -> None:
        self._problems: list[str] = []

    def finish(self) -> None:
        if self._problems:
            raise ParametersInvalid(self._problems)

    def of(self, annotation: Any, value: Any, place: str) -> Any:
        """The decoded value; a problem is noted and gives None, which is never used."""
        try:
            return self._typed(plain(annotation)[0], value, place)
        except _Mismatch as problem:
            self._problems.append(f"{place}: {problem}")
            return None

    def _typed(self, annotation: Any, value: Any, place: str) -> Any:
        if annotation is Any or annotation is object:
            return value
        if is_record(annotation):
            return self._record(annotation, value, place)
        if is_literal(annotation):
            return _literal(annotation, value)
        if is_union(annotation):
            return self._union(annotation, value, place)
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return _member(annotation, value)
        scalar = _SCALARS.get(annotation) if isinstance(annotation, type | None) else None
        if scalar is not None:
            return scalar(value)
        return self._container(annotation, value, place)

    def _record(self, record: Any, value: Any, place: str) -> Any:
        if is_model(record):
            return self._model(record, value, place)
        found = len(self._problems)
        parts = self.object_of(members(record), value, place)
        if parts is None or len(self._problems) > found:
            return None
        if is_typeddict(record):
            return parts
        try:
            return record(**parts)
        except (ValueError, TypeError) as error:
            # What `__post_init__` refuses is a problem of the parameters.
            raise _Mismatch(str(error)) from error

    def _model(self, model: Any, value: Any, place: str) -> Any:
        try:
            return model.model_validate(value)
        except ValueError as error:
            errors = getattr(error, "errors", None)
            if errors is None:
                raise _Mismatch(str(error)) from error
            for problem in errors(include_url=False, include_input=False):
                path = "".join(
                    f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]
                )
                self._problems.append(f"{place}{path}: {problem['msg']}")
            return None

    def object_of(
        self, parameters: Sequence[Member], value: Any, place: str
    ) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self._problems.append(f"{place}: expected an object, got {_name(value)}")
            return None
        known = {member.name: member for member in parameters}
        for key in value:
            if key not in known:
                names = ", ".join(known) or "none"
                self._problems.append(f"{place}.{key}: unknown key; the known keys are: {names}")
        result = {}
        for name, member in known.items():
            if name in value:
                result[name] = self.of(member.annotation, value[name], f"{place}.{name}")
            elif member.required:
                self._problems.append(f"{place}.{name}: required and missing")
        return result

    def _union(self, annotation: Any, value: Any, place: str) -> Any:
        """The first part that fits, the most exact first: `int | float` keeps 1 an int."""
        for part in get_args(annotation):
            attempt = _Decoder()
            result = attempt.of(part, value, place)
            if not attempt._problems:
                return result
        names = " or ".join(_type_name(part) for part in get_args(annotation))
        raise _Mismatch(f"expected {names}, got {_name(value)}")

    def _container(self, annotation: Any, value: Any, place: str) -> Any:
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if origin in MAPPINGS:
            if not isinstance(value, dict):
                raise _Mismatch(f"expected an object, got {_name(value)}")
            kind = arguments[1] if arguments else Any
            return {key: self.of(kind, item, f"{place}.{key}") for key, item in value.items()}
        if not isinstance(value, list):
            raise _Mismatch(f"expected {_type_name(annotation)}, got {_name(value)}")
        if origin is tuple:
            return self._tuple(arguments, value, place)
        kind = arguments[0] if arguments else Any
        items = [self.of(kind, item, f"{place}[{index}]") for index, item in enumerate(value)]
        if origin in LISTS and isinstance(origin, type) and issubclass(origin, AbstractSet):
            return frozenset(items) if origin is frozenset else set(items)
        return items

    def _tuple(self, arguments: tuple[Any, ...], value: list[Any], place: str) -> Any:
        if not arguments or arguments[-1] is Ellipsis:
            kinds = [arguments[0] if arguments else Any] * len(value)
        else:
            kinds = list(arguments)
        if len(kinds) != len(value):
            raise _Mismatch(f"expected {len(kinds)} items, got {len(value)}")
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(self.of(kind, item, f"{place}[{index}]") for index, (kind, item) in pairs)


def _literal(annotation: Any, value: Any) -> Any:
    for allowed in get_args(annotation):
        # True equals 1 in Python and does not in JSON.
        if allowed == value and isinstance(allowed, bool) == isinstance(value, bool):
            return allowed
    names = ", ".join(repr(allowed) for allowed in get_args(annotation))
    raise _Mismatch(f"expected one of {names}, got {_name(value)}")


def _member(kind: type[enum.Enum], value: Any) -> Any:
    for member in kind:
        if member.value == value and isinstance(member.value, bool) == isinstance(value, bool):
            return member
    names = ", ".join(repr(member.value) for member in kind)
    raise _Mismatch(f"expected one of {names}, got {_name(value)}")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _Mismatch(f"expected text, got {_name(value)}")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _Mismatch(f"expected a boolean, got {_name(value)}")


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # JSON Schema counts 3.0 as an integer, and some languages write it so.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _Mismatch(f"expected an integer, got {_name(value)}")


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _Mismatch(f"expected a number, got {_name(value)}")


def _null(value: Any) -> None:
    if value is not None:
        raise _Mismatch(f"expected null, got {_name(value)}")


def _decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            pass
    raise _Mismatch(f"expected a number or the text of one, got {_name(value)}")


def _moment(value: Any) -> datetime.datetime:
    text = _text(value)
    # `fromisoformat` takes the Z of UTC since Python 3.11 only.
    if sys.version_info < (3, 11) and text.endswith(("Z", "z")):
        text = f"{text[:-1]}+00:00"
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise _Mismatch("expected a time such as 2024-05-01T12:00:00Z") from error


def _date(value: Any) -> datetime.date:
    try:
        return datetime.date.fromisoformat(_text(value))
    except ValueError as error:
        raise _Mismatch("expected a date such as 2024-05-01") from error


def _uuid(value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(_text(value))
    except ValueError as error:
        raise _Mismatch("expected a UUID") from error


_SCALARS: dict[Any, Any] = {
    None: _null,
    type(None): _null,
    bool: _boolean,
    int: _integer,
    float: _number,
    str: _text,
    decimal.Decimal: _decimal,
    datetime.datetime: _moment,
    datetime.date: _date,
    uuid.UUID: _uuid,
}


def _name(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "text", bool: "a boolean"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def _type_name(annotation: Any) -> str:
    names = {str: "text", int: "an integer", float: "a number", bool: "a boolean"}
    names[type(None)] = "null"
    annotation = plain(annotation)[0]
    if get_origin(annotation) or not isinstance(annotation, type):
        return str(annotation).replace("typing.", "")
    return names.get(annotation, annotation.__name__)
