"""One action: a function, how its parameters are decoded, and what is declared of it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_origin, get_type_hints

from windlass.context import Context
from windlass.decode import decode, decode_members
from windlass.schema import UnsupportedType, description_of, schema_of, schema_of_members
from windlass.typing_forms import MAPPINGS, NO_DEFAULT, Member, is_record, plain

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}")


class Action:
    """A function that serves an action type.

    The function takes its parameters in one of two ways: as one object (a dataclass, a pydantic
    model, a TypedDict, a dict or anything that is not annotated), or one by one, as keys of the
    parameters object. A parameter annotated `Context` gets the context, wherever it stands.
    """

    def __init__(
        self,
        action_type: str,
        function: Callable[..., Any],
        names: Mapping[str, Any] | None = None,
    ) -> None:
        if not _NAME.fullmatch(action_type):
            raise ValueError(
                f"{action_type!r} is not an action type: use letters, digits and . _ / : -, "
                "at most 128, beginning with a letter or digit, such as 'billing.charge'"
            )
        self.action_type = action_type
        self.function = function
        # The function below a `partial`, or the method behind an object that can be called.
        inner = function.func if isinstance(function, functools.partial) else function
        self._inner = inner if inspect.isroutine(inner) else type(inner).__call__
        self.is_async = inspect.iscoroutinefunction(self._inner)
        self._context_name: str | None = None
        self._whole: tuple[str, Any] | None = None
        self._members: list[Member] = []
        self._read_signature(names)

    def declaration(self) -> dict[str, Any]:
        """What the worker tells the server about this action."""
        if self._whole is not None:
            schema = schema_of(self._whole[1])
        else:
            schema = schema_of_members(self._members)
        declared: dict[str, Any] = {"actionType": self.action_type}
        if schema:
            declared["parametersSchema"] = schema
        description = description_of(self.function)
        if description:
            declared["description"] = description
        return declared

    def arguments(self, parameters: Any, context: Context) -> dict[str, Any]:
        """The function's arguments by name; raises `ParametersInvalid`."""
        if self._whole is not None:
            name, annotation = self._whole
            found = {name: decode(annotation, parameters)}
        else:
            # A node without parameters has null where a function has none to take.
            found = decode_members(self._members, {} if parameters is None else parameters)
        if self._context_name is not None:
            found[self._context_name] = context
        return found

    def _read_signature(self, names: Mapping[str, Any] | None) -> None:
        # `from __future__ import annotations` makes every annotation text; this resolves it.
        # `names` are those where the action is registered, which may be inside a function.
        try:
            hints = get_type_hints(self._inner, localns=dict(names or {}), include_extras=True)
        except NameError as error:
            raise UnsupportedType(
                f"{self._place()}: {error}: define the types of its parameters in the module"
            ) from error
        for parameter in inspect.signature(self.function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise UnsupportedType(
                    f"{self._place()} takes *{parameter.name}: name its parameters instead"
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise UnsupportedType(
                    f"{self._place()} takes {parameter.name} by position only: remove the '/'"
                )
            annotation = hints.get(parameter.name, Any)
            if plain(annotation)[0] is Context:
                self._context_name = parameter.name
                continue
            required = parameter.default is parameter.empty
            default = NO_DEFAULT if required else parameter.default
            self._members.append(Member(parameter.name, annotation, required, default))
        if len(self._members) == 1 and _takes_all(self._members[0].annotation):
            self._whole = (self._members[0].name, self._members[0].annotation)
        # A type that JSON cannot carry is found here, where the action is registered.
        self.declaration()

    def _place(self) -> str:
        return f"{self.action_type} ({getattr(self.function, '__qualname__', self.function)})"


def _takes_all(annotation: Any) -> bool:
    """Whether a single parameter of this type is the whole object."""
    annotation = plain(annotation)[0]
    if annotation is Any or is_record(annotation):
        return True
    return (get_origin(annotation) or annotation) in MAPPINGS
