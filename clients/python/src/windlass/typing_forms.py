"""What the annotations of Python mean, in the few forms that JSON can carry.

`schema.py` and `decode.py` share this reading, so that what is declared to the server and what
is accepted from it cannot drift apart.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

# Not `MISSING`: a dataclass would take that for the absence of a default.
NO_DEFAULT: Any = object()

LISTS = (list, Sequence, MutableSequence, set, frozenset, AbstractSet)
MAPPINGS = (dict, Mapping, MutableMapping)

# `Required[…]` and `NotRequired[…]` exist since Python 3.11; before, `typing_extensions` has them.
_MARKS = {"Required", "NotRequired", "ReadOnly"}


@dataclasses.dataclass(frozen=True)
class Member:
    """A field of a dataclass, a key of a TypedDict or a parameter of a function."""

    name: str
    annotation: Any
    required: bool
    default: Any = NO_DEFAULT
    description: str | None = None


def plain(annotation: Any) -> tuple[Any, str | None]:
    """The annotation without its wrappers, and the description that `Annotated` gives it."""
    description = None
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *extra = get_args(annotation)
            texts = [text for text in extra if isinstance(text, str)]
            description = description or (texts[0] if texts else None)
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif getattr(get_origin(annotation), "_name", None) in _MARKS:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, dataclasses.InitVar):
            annotation = annotation.type
        else:
            return annotation, description


def is_union(annotation: Any) -> bool:
    """Whether it is `A | B`, `Union[A, B]` or `Optional[A]`."""
    return get_origin(annotation) in (Union, types.UnionType)


def is_literal(annotation: Any) -> bool:
    """Whether it is `Literal[…]`."""
    return get_origin(annotation) is Literal


def is_model(annotation: Any) -> bool:
    """Whether it is a pydantic model. Its absence is no reason to import pydantic."""
    return isinstance(annotation, type) and hasattr(annotation, "model_validate")


def is_record(annotation: Any) -> bool:
    """Whether it is a type with named members: a dataclass, a TypedDict or a pydantic model."""
    return is_model(annotation) or is_dataclass(annotation) or typing.is_typeddict(annotation)


def is_dataclass(annotation: Any) -> bool:
    """Whether it is a dataclass, not an instance of one."""
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def members(record: Any) -> list[Member]:
    """The members of a dataclass or TypedDict, with their annotations resolved."""
    hints = get_type_hints(record, include_extras=True)
    if typing.is_typeddict(record):
        required = record.__required_keys__
        return [Member(name, hint, name in required) for name, hint in hints.items()]
    found = []
    for field in dataclasses.fields(record):
        if not field.init:
            continue
        required = field.default is MISSING and field.default_factory is MISSING
        found.append(
            Member(
                name=field.name,
                annotation=hints[field.name],
                required=required,
                default=NO_DEFAULT if field.default is MISSING else field.default,
                description=field.metadata.get("description"),
            )
        )
    return found
