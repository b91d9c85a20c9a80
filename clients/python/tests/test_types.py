"""What annotations declare and accept: schemas, decoding, encoding."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import json
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict

import jsonschema
import pydantic
import pytest

from windlass import Context, ParametersInvalid, Worker
from windlass.action import Action
from windlass.decode import decode
from windlass.encode import NotJson, dumps
from windlass.schema import UnsupportedType, schema_of
from windlass.testing import run_action

Cents = NewType("Cents", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(TypedDict, total=False):
    street: str
    number: int


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Limit(pydantic.BaseModel):
    cents: int = pydantic.Field(gt=0)


class Account(pydantic.BaseModel):
    owner: str
    limit: Limit


@dataclass
class Everything:
    text: str
    count: int
    ratio: float
    flag: bool
    when: datetime.datetime
    day: datetime.date
    key: uuid.UUID
    price: decimal.Decimal
    color: Color
    mode: Literal["fast", "slow", 1]
    maybe: Optional[int]  # noqa: UP045 - both spellings are read
    either: int | str
    items: list[int]
    pair: tuple[int, str]
    many: tuple[int, ...]
    tags: set[str]
    table: dict[str, list[float]]
    address: Address
    tree: Tree
    account: Account
    cents: Annotated[Cents, "in cents"]
    anything: Any
    note: str = "none"


GOOD: dict[str, Any] = {
    "text": "a",
    "count": 3,
    "ratio": 2,
    "flag": True,
    "when": "2024-05-01T12:00:00Z",
    "day": "2024-05-01",
    "key": "12345678-1234-5678-1234-567812345678",
    "price": "1.10",
    "color": "red",
    "mode": "fast",
    "maybe": None,
    "either": "x",
    "items": [1, 2],
    "pair": [1, "b"],
    "many": [1, 2, 3],
    "tags": ["a"],
    "table": {"k": [1.5]},
    "address": {"street": "s"},
    "tree": {"name": "root", "children": [{"name": "leaf"}]},
    "account": {"owner": "ada", "limit": {"cents": 5}},
    "cents": 7,
    "anything": {"x": [None]},
}


def test_every_form_is_declared_and_decoded() -> None:
    schema = schema_of(Everything)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(GOOD)
    value = decode(Everything, GOOD)
    assert value.when == datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)
    assert value.day == datetime.date(2024, 5, 1)
    assert value.key == uuid.UUID(GOOD["key"])
    assert value.price == decimal.Decimal("1.10")
    assert value.color is Color.RED
    assert (value.ratio, type(value.ratio)) == (2.0, float)
    assert (value.pair, value.many, value.tags) == ((1, "b"), (1, 2, 3), {"a"})
    assert value.tree == Tree("root", [Tree("leaf")])
    assert value.account == Account(owner="ada", limit=Limit(cents=5))
    assert value.note == "none"
    assert schema["properties"]["cents"] == {"type": "integer", "description": "in cents"}
    # What is decoded can be written again, to what was read.
    written = json.loads(dumps(value))
    validator.validate(written)
    assert decode(Everything, written) == value


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("text", 1),
        ("count", True),
        ("count", 1.5),
        ("count", "1"),
        ("ratio", False),
        ("flag", 1),
        ("when", "yesterday"),
        ("day", "2024-13-01"),
        ("key", "no"),
        ("price", [1]),
        ("color", "green"),
        ("mode", True),
        ("maybe", "x"),
        ("either", 1.5),
        ("items", {"0": 1}),
        ("items", [1, "2"]),
        ("pair", [1]),
        ("pair", ["b", 1]),
        ("many", [1, None]),
        ("tags", "a"),
        ("table", {"k": [None]}),
        ("address", {"street": 1}),
        ("address", {"town": "x"}),
        ("tree", {"children": []}),
        ("tree", {"name": "x", "children": [{}]}),
        ("account", {"owner": "ada", "limit": {"cents": 0}}),
        ("cents", None),
        ("unknown", 1),
    ],
)
def test_schema_and_decoding_refuse_the_same(key: str, bad: Any) -> None:
    value = {**GOOD, key: bad}
    with pytest.raises(ParametersInvalid) as refused:
        decode(Everything, value)
    assert f"$.{key}" in refused.value.message
    # Texts of a format are not checked by schemas.
    if key not in ("when", "day", "key"):
        validator = jsonschema.Draft202012Validator(schema_of(Everything))
        assert not validator.is_valid(value)


def test_all_problems_are_told_with_their_places() -> None:
    with pytest.raises(ParametersInvalid) as refused:
        decode(Tree, {"children": [{"name": 1}, {"name": "a", "x": 1}, 7]})
    assert refused.value.problems == [
        "$.name: required and missing",
        "$.children[0].name: expected text, got a number",
        "$.children[1].x: unknown key; the known keys are: name, children",
        "$.children[2]: expected an object, got a number",
    ]


def test_what_post_init_refuses_is_a_problem_of_the_parameters() -> None:
    @dataclass
    class Positive:
        cents: int

        def __post_init__(self) -> None:
            if self.cents <= 0:
                raise ValueError("cents must be positive")

    assert decode(Positive, {"cents": 1}) == Positive(1)
    with pytest.raises(ParametersInvalid, match="cents must be positive"):
        decode(Positive, {"cents": 0})


def test_a_model_is_its_own_schema() -> None:
    schema = schema_of(Account)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["required"] == ["owner", "limit"]
    assert decode(Account, GOOD["account"]).limit.cents == 5


class Callable:
    async def __call__(self, count: int) -> int:
        return count


def test_types_of_a_function_may_be_local_where_the_action_is_registered() -> None:
    @dataclass
    class Local:
        count: int

    worker = Worker("http://127.0.0.1:1")

    @worker.action("a.b")
    def local(given: Local) -> int:
        return given.count + 1

    assert run_action(worker, "a.b", {"count": 1}).output == 2
    with pytest.raises(UnsupportedType, match="'Local' is not defined"):
        Action("a.b", local)


def test_functions_take_their_parameters_whole_or_one_by_one() -> None:
    def declared(function: Any) -> Any:
        return Action("a.b", function).declaration().get("parametersSchema")

    def whole(given: dict[str, int]) -> None: ...
    def untyped(given): ...  # type: ignore[no-untyped-def]
    def nothing(context: Context) -> None: ...
    def one(count: int, *, context: Context, limit: int = 3) -> None: ...
    def rest(*given: int) -> None: ...
    def position(given: int, /) -> None: ...
    def odd(given: bytes) -> None: ...
    def keys(given: dict[int, str]) -> None: ...

    assert declared(whole) == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert declared(untyped) is None
    assert declared(nothing)["properties"] == {}
    assert declared(one)["properties"] == {
        "count": {"type": "integer"},
        "limit": {"type": "integer", "default": 3},
    }
    assert declared(functools.partial(one, limit=4))["required"] == ["count"]
    assert Action("a.b", Callable()).is_async
    for bad in (rest, position, odd, keys):
        with pytest.raises(UnsupportedType):
            declared(bad)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": Color.RED, "b": (1, 2), "c": {3, 1, 2}}, '{"a":"red","b":[1,2],"c":[1,2,3]}'),
        (b"\x00\xff", '"AP8="'),
        ("grüße \u0000 \U0001f600", '"grüße \\u0000 \U0001f600"'),
        (10**30, str(10**30)),
        (Tree("x"), '{"name":"x","children":[]}'),
    ],
)
def test_values_are_written_as_json(value: Any, written: str) -> None:
    assert dumps(value).decode() == written


def test_what_is_not_json_is_refused_with_its_place() -> None:
    with pytest.raises(NotJson, match=r"\$\.a\[1\]"):
        dumps({"a": [1, object()]})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotJson, match="nested too deeply"):
        dumps(loop)
