"""JSON Schema of Python types: what a worker declares for the parameters of an action.

Must not decode values; `decode.py` does, by the same reading of types.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import uuid
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from windlass.encode import to_json
from windlass.typing_forms import (
    LISTS,
    MAPPINGS,
    NO_DEFAULT,
    Member,
    is_literal,
    is_model,
    is_record,
    is_union,
    members,
    plain,
)

_SIMPLE: dict[Any, dict[str, Any]] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    # Digits past those of a float survive as text only.
    decimal.Decimal: {"type": ["string", "number"]},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}


class UnsupportedType(TypeError):
    """A type that JSON cannot carry; the message names the place and what to use."""


def schema_of(annotation: Any) -> dict[str, Any]:
    """The schema of one type."""
    builder = _Builder()
    return builder.finish(builder.root(annotation))


def schema_of_members(parameters: Sequence[Member]) -> dict[str, Any]:
    """The schema of an object with these members: the parameters of a function."""
    builder = _Builder()
    return builder.finish(builder.object_of(parameters, "the parameters"))


class _Builder:
    """Collects the definitions of nested types, each once, so that recursion ends."""

    def __init__(self) -> None:
        self._definitions: dict[str, dict[str, Any]] = {}
        self._references: dict[Any, str] = {}

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        if self._definitions:
            return {**schema, "$defs": self._definitions}
        return schema

    def root(self, annotation: Any) -> dict[str, Any]:
        """The outermost type is written in place; where it holds itself, it refers to `#`."""
        annotation, _ = plain(annotation)
        if is_model(annotation):
            return _model_schema(annotation, "#/$defs/{model}")
        if not is_record(annotation):
            return self.of(annotation, "the parameters")
        self._references[annotation] = "#"
        return self.object_of(members(annotation), annotation.__name__)

    def of(self, annotation: Any, place: str) -> dict[str, Any]:
        annotation, description = plain(annotation)
        schema = self._bare(annotation, place)
        return {**schema, "description": description} if description else schema

    def _bare(self, annotation: Any, place: str) -> dict[str, Any]:
        try:
            if annotation in _SIMPLE:
                return dict(_SIMPLE[annotation])
        except TypeError:
            pass  # It cannot be hashed, so it is none of the simple ones.
        if is_record(annotation):
            return self._reference(annotation)
        if is_literal(annotation):
            return {"enum": [to_json(value) for value in get_args(annotation)]}
        if is_union(annotation):
            return _any_of([self.of(part, place) for part in get_args(annotation)])
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return {"enum": [to_json(member.value) for member in annotation]}
        return self._container(annotation, place)

    def _container(self, annotation: Any, place: str) -> dict[str, Any]:
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if origin is tuple:
            return self._tuple(arguments, place)
        if origin in LISTS:
            items = self.of(arguments[0], f"{place}[]") if arguments else {}
            unique = {"uniqueItems": True} if "set" in str(origin).lower() else {}
            return {"type": "array", "items": items, **unique}
        if origin in MAPPINGS:
            if arguments and plain(arguments[0])[0] not in (str, Any):
                raise UnsupportedType(f"{place}: keys of JSON objects are text: use dict[str, …]")
            values = self.of(arguments[1], f"{place}.*") if arguments else {}
            return {"type": "object", "additionalProperties": values or True}
        raise UnsupportedType(
            f"{place} has the type {annotation!r}, which JSON cannot carry: use str, int, float, "
            "bool, datetime, UUID, Decimal, an Enum, a dataclass, a TypedDict, a pydantic model, "
            "or lists, dicts and unions of them; Any accepts everything"
        )

    def _tuple(self, arguments: tuple[Any, ...], place: str) -> dict[str, Any]:
        if not arguments:
            return {"type": "array"}
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0], f"{place}[]")}
        items = [self.of(part, f"{place}[{index}]") for index, part in enumerate(arguments)]
        count = len(items)
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}

    def _reference(self, record: Any) -> dict[str, Any]:
        """Refers to a record, and defines it unless it is defined or under definition."""
        if record not in self._references:
            name, count = record.__name__, 2
            while name in self._definitions:
                name, count = f"{record.__name__}{count}", count + 1
            self._references[record] = f"#/$defs/{name}"
            self._definitions[name] = {}
            self._definitions[name] = (
                _model_schema(record, f"#/$defs/{name}/$defs/{{model}}")
                if is_model(record)
                else self.object_of(members(record), record.__name__)
            )
        return {"$ref": self._references[record]}

    def object_of(self, parameters: Sequence[Member], place: str) -> dict[str, Any]:
        properties = {}
        for member in parameters:
            schema = self.of(member.annotation, f"{place}.{member.name}")
            if member.description:
                schema["description"] = member.description
            if member.default is not NO_DEFAULT and member.default is not None:
                schema["default"] = to_json(member.default)
            properties[member.name] = schema
        return {
            "type": "object",
            "properties": properties,
            "required": [member.name for member in parameters if member.required],
            "additionalProperties": False,
        }


def description_of(function: Any) -> str | None:
    """The first paragraph of a function's docstring."""
    text = inspect.getdoc(function)
    return " ".join(text.split("\n\n")[0].split()) or None if text else None


def _any_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A union; `T | None` of a plain type is written the short way."""
    kinds = [part.get("type") for part in parts if set(part) == {"type"}]
    if len(kinds) == len(parts) and all(isinstance(kind, str) for kind in kinds):
        return {"type": kinds}
    return {"anyOf": parts}


def _model_schema(model: Any, references: str) -> dict[str, Any]:
    """A pydantic model describes itself; `references` says where its own definitions are."""
    schema: dict[str, Any] = model.model_json_schema(
        by_alias=True, mode="validation", ref_template=references
    )
    return schema
