"""Every rule is checked with the standard library's `dataclass`, too: both must do the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, get_type_hints

import pytest

from kafkaraw import light_classes

BOTH = pytest.mark.parametrize("module", [dataclasses, light_classes], ids=["standard", "light"])


def offset_class(module: Any, **options: bool) -> Any:
    @module.dataclass(**{"frozen": True, "slots": True} | options)
    class Offset:
        """An offset."""

        topic: str
        offset: int = -1
        metadata: str = module.field(default="", repr=False, compare=False)
        replicas: list[int] = module.field(default_factory=list)
        kind: ClassVar[str] = "offset"

    return Offset


@BOTH
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("slots", [True, False])
def test_fields_come_from_arguments_defaults_and_factories(module: Any, frozen: bool, slots: bool) -> None:
    Offset = offset_class(module, frozen=frozen, slots=slots)
    first, second = Offset("a"), Offset("a", 7, metadata="m", replicas=[1])
    assert (first.topic, first.offset, first.metadata, first.replicas) == ("a", -1, "", [])
    assert (second.offset, second.metadata, second.replicas) == (7, "m", [1])
    assert first.replicas is not Offset("a").replicas
    assert Offset.kind == "offset"
    assert hasattr(first, "__dict__") is not slots


@BOTH
def test_wrong_arguments_raise_type_error(module: Any) -> None:
    Offset = offset_class(module)
    for arguments, named in ((), {}), (("a", 1, "", [], 5), {}), (("a",), {"unknown": 1}):
        with pytest.raises(TypeError, match=r"Offset\.__init__\(\)"):
            Offset(*arguments, **named)


@BOTH
def test_equality_compares_fields_of_the_same_class(module: Any) -> None:
    Offset, Other = offset_class(module), offset_class(module)
    assert Offset("a", 1) == Offset("a", 1)
    assert Offset("a", 1) != Offset("a", 2)
    assert Offset("a", 1, "x") == Offset("a", 1, "y")
    assert Offset("a") != Other("a")
    assert Offset("a") != ("a", -1, "", [])


@BOTH
def test_equal_frozen_objects_have_equal_hashes(module: Any) -> None:
    @module.dataclass(frozen=True, slots=True)
    class Key:
        topic: str
        partition: int
        note: str = module.field(default="", compare=False)

    assert hash(Key("a", 1, "x")) == hash(Key("a", 1, "y")) == hash(("a", 1))
    assert {Key("a", 1): 5}[Key("a", 1)] == 5


@BOTH
def test_hash_is_none_unless_frozen_and_stays_where_the_class_has_one(module: Any) -> None:
    assert offset_class(module, frozen=False).__hash__ is None
    assert offset_class(module, frozen=False, eq=False).__hash__ is object.__hash__

    @module.dataclass(slots=True)
    class OwnHash:
        a: int

        def __hash__(self) -> int:
            return 5

    @module.dataclass(frozen=True)
    class OwnEquality:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    assert hash(OwnHash(1)) == 5
    assert OwnEquality(1) == OwnEquality(2)
    assert hash(OwnEquality(1)) == hash((1,))


@BOTH
def test_repr_names_the_class_and_leaves_secrets_out(module: Any) -> None:
    shown = repr(offset_class(module)("a", 3, "secret"))
    assert shown.endswith("Offset(topic='a', offset=3, replicas=[])")

    @module.dataclass
    class Node:
        next: object = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


@BOTH
@pytest.mark.parametrize("slots", [True, False])
def test_frozen_objects_refuse_assignment_and_deletion(module: Any, slots: bool) -> None:
    one = offset_class(module, slots=slots)("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'offset'"):
        one.offset = 5
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'offset'"):
        del one.offset
    assert one.offset == -1


@BOTH
def test_by_name_only_fields_follow_positional_ones(module: Any) -> None:
    @module.dataclass
    class Base:
        a: int
        b: int = 2

    @module.dataclass(kw_only=True)
    class Child(Base):
        c: int
        b: int = 3

    child = Child(1, c=5)
    assert (child.a, child.b, child.c) == (1, 3, 5)
    assert Child.__match_args__ == ("a",)
    with pytest.raises(TypeError):
        Child(1, 2, 3)


@BOTH
def test_subclasses_inherit_fields_slots_and_methods(module: Any) -> None:
    @module.dataclass(frozen=True, slots=True)
    class Base:
        a: int

        def twice(self) -> int:
            return 2 * self.a

    @module.dataclass(frozen=True, slots=True)
    class Child(Base):
        b: int = 0

    @module.dataclass(frozen=True)
    class Dictionary:
        a: int

    class Plain(Dictionary):
        pass

    assert Child(1, 2).twice() == 2
    assert Child.__slots__ == ("b",)
    assert Plain(1) == Plain(1) != Dictionary(1)
    plain = Plain(1)
    plain.extra = 5  # type: ignore[attr-defined] # it is no field, and the subclass is not frozen
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.a = 2
    assert [each.name for each in module.fields(Child)] == ["a", "b"]


@BOTH
def test_post_init_and_fields_outside_of_init(module: Any) -> None:
    @module.dataclass(slots=True)
    class Range:
        first: int
        size: int = module.field(init=False)
        kind: str = module.field(init=False, default="range")

        def __post_init__(self) -> None:
            self.size = self.first + 1

    one = Range(4)
    assert (one.size, one.kind) == (5, "range")
    with pytest.raises(TypeError):
        Range(4, 5)
    assert module.replace(one, first=7).size == 8
    with pytest.raises((TypeError, ValueError), match="init=False"):  # a dataclass's: ValueError before Python 3.13
        module.replace(one, size=7)


@BOTH
def test_replace_makes_a_copy_with_other_values(module: Any) -> None:
    one = offset_class(module)("a", 3, "m")
    other = module.replace(one, offset=4)
    assert (other.topic, other.offset, other.metadata, one.offset) == ("a", 4, "m", 3)
    with pytest.raises(TypeError, match="unknown"):
        module.replace(one, unknown=1)
    with pytest.raises(TypeError):
        module.replace(5, a=1)


@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("change", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_frozen_objects_are_copied_and_pickled(slots: bool, change: Callable[[object], object]) -> None:
    for cls in Pickled, PickledSlots:
        assert change(cls("a", [1])) == cls("a", [1])


@light_classes.dataclass(frozen=True)
class Pickled:
    a: str
    b: list[int]


@light_classes.dataclass(frozen=True, slots=True)
class PickledSlots:
    a: str
    b: list[int]


@BOTH
def test_functions_of_the_standard_library_accept_the_classes(module: Any) -> None:
    Offset = offset_class(module)
    assert dataclasses.is_dataclass(Offset)
    assert dataclasses.is_dataclass(Offset("a"))
    assert dataclasses.asdict(Offset("a")) == {"topic": "a", "offset": -1, "metadata": "", "replicas": []}
    assert dataclasses.astuple(Offset("a", 5)) == ("a", 5, "", [])
    assert dataclasses.replace(Offset("a"), offset=9).offset == 9
    topic, offset, metadata, replicas = dataclasses.fields(Offset)
    assert (topic.type, topic.default, offset.default) == ("str", dataclasses.MISSING, -1)
    assert (metadata.repr, metadata.compare, replicas.default_factory) == (False, False, list)

    @dataclasses.dataclass(frozen=True)
    class Child(Offset):  # type: ignore[misc, valid-type]
        leader: int = 0

    assert Child("a", leader=3) == Child("a", leader=3)
    assert [it.name for it in dataclasses.fields(Child)][-2:] == ["replicas", "leader"]


@BOTH
def test_signature_has_names_defaults_and_types(module: Any) -> None:
    Offset = offset_class(module)
    expected = "(topic: 'str', offset: 'int' = -1, metadata: 'str' = '', replicas: 'list[int]' = <factory>) -> None"
    assert str(inspect.signature(Offset)) == expected
    assert get_type_hints(Offset.__init__)["offset"] is int
    assert Offset.__init__.__qualname__.endswith("Offset.__init__")
    assert Offset.__match_args__ == ("topic", "offset", "metadata", "replicas")


@BOTH
def test_methods_of_the_class_body_stay(module: Any) -> None:
    @module.dataclass(slots=True)
    class Own:
        a: int

        def __init__(self) -> None:
            self.a = 5

        def __repr__(self) -> str:
            return "own"

    assert (Own().a, repr(Own())) == (5, "own")


@BOTH
def test_wrong_declarations_raise(module: Any) -> None:
    with pytest.raises(TypeError):

        @module.dataclass
        class Order:
            a: int = 1
            b: int

    with pytest.raises((TypeError, ValueError), match="default_factory"):

        @module.dataclass
        class Shared:
            a: list[int] = []  # noqa: RUF012 -- this is the mistake

    with pytest.raises(TypeError, match="annotation"):

        @module.dataclass
        class Nameless:
            a = module.field(default=5)

    with pytest.raises((TypeError, ValueError), match="both"):

        @module.dataclass
        class Twice:
            a: int = module.field(default=5, default_factory=int)


def test_features_left_out_raise() -> None:
    with pytest.raises(TypeError, match=r"a: dataclasses\.InitVar\[int\] is not supported"):

        @light_classes.dataclass
        class Init:
            a: dataclasses.InitVar[int]

    with pytest.raises(TypeError, match=r"a is a field\(\) of the standard library"):

        @light_classes.dataclass
        class Mixed:
            a: int = dataclasses.field(default=5)

    @dataclasses.dataclass
    class Standard:
        a: int

    with pytest.raises(TypeError, match=r"its base .*Standard is a dataclass of the standard library"):

        @light_classes.dataclass
        class Child(Standard):
            b: int


def test_methods_are_compiled_when_they_are_first_used() -> None:
    Offset = offset_class(light_classes)
    compiled = lambda: {name for name in ("__init__", "__eq__", "__hash__") if inspect.isfunction(vars(Offset)[name])}  # noqa: E731
    assert compiled() == set()
    one = Offset("a")
    assert compiled() == {"__init__"}
    assert one == Offset("a")
    assert compiled() == {"__init__", "__eq__"}


BOTH_TUPLES = pytest.mark.parametrize("base", [NamedTuple, light_classes.NamedTuple], ids=["standard", "light"])


@BOTH_TUPLES
def test_named_tuples_have_fields_defaults_and_methods(base: Any) -> None:
    class Address(base):
        """Host and port."""

        host: str
        port: int = 9092

        def __str__(self) -> str:
            return f"{self.host}:{self.port}"

        @property
        def is_default(self) -> bool:
            return self.port == 9092

    one = Address("a")
    assert (one.host, one.port, one.is_default, str(one), tuple(one)) == ("a", 9092, True, "a:9092", ("a", 9092))
    assert repr(one) == "Address(host='a', port=9092)"
    assert one._replace(port=5) == ("a", 5)
    assert Address._make(["b", 1]) == Address("b", port=1)
    assert (Address._fields, Address._field_defaults) == (("host", "port"), {"port": 9092})
    assert (Address.__doc__, Address.__module__) == ("Host and port.", __name__)
    assert Address.__qualname__.endswith("<locals>.Address")
    assert get_type_hints(Address) == {"host": str, "port": int}
    assert isinstance(one, tuple)
    assert not hasattr(one, "__dict__")
    with pytest.raises(TypeError):
        Address()


class PickledTuple(light_classes.NamedTuple):
    a: int


def test_named_tuples_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(PickledTuple(5))) == PickledTuple(5)


@BOTH_TUPLES
def test_wrong_named_tuples_raise(base: Any) -> None:
    with pytest.raises(TypeError, match="default"):

        class Order(base):
            a: int = 1
            b: int

    with pytest.raises(TypeError):

        class Mixed(base, dict):  # type: ignore[type-arg]
            a: int
