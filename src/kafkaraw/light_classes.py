"""`dataclass` and `NamedTuple` as in the standard library, for classes that cost little when their module is imported.

`dataclasses.dataclass` compiles up to eight methods for each class at import, about 0.7 ms, and `typing.NamedTuple`
compiles each annotation. This package has several hundred such classes, and a program uses few of them. Here a
dataclass gets its slots and fields at import; `__init__`, `__eq__` and `__hash__` are compiled when they are first
looked up, from the same source text as in the standard library, and cost the same from then on.

For type checkers the names are those of `dataclasses` and `typing`. What is left out raises TypeError: `order`,
`unsafe_hash`, `KW_ONLY`, `InitVar`, and named tuples that are generic. Functions of `dataclasses` (`asdict`, `fields`,
`replace`) accept these classes; those that this module has are faster. Must not import anything of this package, nor
`dataclasses` before it is needed. Start at `_dataclass`.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from reprlib import recursive_repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

_FIELDS: Final = "__light_class_fields__"
_NOTHING: Final[Mapping[object, object]] = MappingProxyType({})


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"  # what the signature shows, as in the standard library


_MISSING: Final = _Missing()
_FACTORY: Final = _Factory()


class _Field:
    """One field: the attributes of `dataclasses.Field` that this package uses."""

    __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "metadata", "name", "repr", "type")

    name: str
    type: object
    kw_only: bool

    def __init__(
        self,
        default: object,
        default_factory: object,
        init: bool,
        repr: bool,
        compare: bool,
        metadata: Mapping[Any, Any] | None,
    ) -> None:
        self.default = default
        self.default_factory: Any = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare
        self.metadata: Mapping[Any, Any] = _NOTHING if metadata is None else MappingProxyType(metadata)


def _field(
    *,
    default: object = _MISSING,
    default_factory: object = _MISSING,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
    metadata: Mapping[Any, Any] | None = None,
) -> _Field:
    """Describe a field; arguments as for `dataclasses.field`."""
    return _Field(default, default_factory, init, repr, compare, metadata)


def _dataclass(
    cls: type[Any] | None = None,
    *,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
) -> Any:  # noqa: ANN401 -- type checkers see the standard library's
    """Make a class a dataclass; arguments as for `dataclasses.dataclass`.

    Raises:
        TypeError: a default is mutable, a field without a default follows one with a default, or the class uses a
            feature that this module leaves out.
    """

    def decorate(cls: type[Any]) -> type[Any]:
        return _made(cls, eq, frozen, slots, kw_only)

    return decorate if cls is None else decorate(cls)


def _made(cls: type[Any], eq: bool, frozen: bool, slots: bool, kw_only: bool) -> type[Any]:
    own = _own_fields(cls, kw_only)
    every = _inherited_fields(cls) | own
    _check_order(cls, every)
    body = {name: value for name, value in cls.__dict__.items() if name not in own}
    lazy, shared = _methods(body, eq, frozen)
    body |= lazy | shared
    body[_FIELDS] = every
    body["__dataclass_fields__"] = _Standard("__dataclass_fields__", eq, frozen)
    body["__dataclass_params__"] = _Standard("__dataclass_params__", eq, frozen)
    body["__match_args__"] = tuple(it.name for it in every.values() if it.init and not it.kw_only)
    cls = _slotted(cls, body, own, frozen) if slots else _extended(cls, body, own)
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refusals(cls, every)
    for method in lazy.values():
        method.owner, method.frozen = cls, frozen
    return cls


def _methods(body: Mapping[str, object], eq: bool, frozen: bool) -> tuple[dict[str, _Lazy], dict[str, object]]:
    """The methods that the class body does not have: those compiled on first use, and those that all classes share."""
    lazy = {"__init__": _Lazy("__init__", _init_source)}
    shared: dict[str, object] = {"__repr__": _show, "__replace__": _replace}
    if eq:
        lazy["__eq__"] = _Lazy("__eq__", _eq_source)
        if frozen:
            lazy["__hash__"] = _Lazy("__hash__", _hash_source)
        else:
            shared["__hash__"] = None
    # Python itself sets `__hash__` to None in a body that has `__eq__` only: that is no choice of the class.
    chosen = set(body)
    if body.get("__hash__", _MISSING) is None and "__eq__" in body:
        chosen.discard("__hash__")
    return (
        {name: method for name, method in lazy.items() if name not in chosen},
        {name: method for name, method in shared.items() if name not in chosen},
    )


def _slotted(cls: type[Any], body: dict[str, Any], own: Mapping[str, _Field], frozen: bool) -> type[Any]:
    """A class of the same name with slots, which can only be given when a class is made."""
    inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    body["__slots__"] = tuple(name for name in own if name not in inherited)
    if frozen and "__getstate__" not in body:  # pickle and copy would assign the attributes
        body["__getstate__"], body["__setstate__"] = _get_state, _set_state
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    make: Callable[..., type[Any]] = type(cls)
    slotted = make(cls.__name__, cls.__bases__, body)
    slotted.__qualname__ = cls.__qualname__
    return slotted


def _extended(cls: type[Any], body: Mapping[str, object], own: Mapping[str, _Field]) -> type[Any]:
    """The class itself, with its defaults and methods as attributes."""
    for name, declared in own.items():
        if declared.default is not _MISSING:
            setattr(cls, name, declared.default)
        elif name in cls.__dict__:
            delattr(cls, name)
    for name, value in body.items():
        if cls.__dict__.get(name, _MISSING) is not value:
            setattr(cls, name, value)
    return cls


def _inherited_fields(cls: type[Any]) -> dict[str, _Field]:
    inherited: dict[str, _Field] = {}
    for base in cls.__mro__[-1:0:-1]:
        if _FIELDS in base.__dict__:
            inherited.update(base.__dict__[_FIELDS])
        elif "__dataclass_fields__" in base.__dict__:
            raise TypeError(f"{cls.__qualname__}: its base {base.__qualname__} is a dataclass of the standard library")
    return inherited


def _own_fields(cls: type[Any], kw_only: bool) -> dict[str, _Field]:
    """The fields that the class body declares, in its order."""
    own: dict[str, _Field] = {}
    for name, kind in cls.__annotations__.items():
        text = kind if isinstance(kind, str) else repr(kind)
        if text.startswith(("ClassVar", "typing.ClassVar")):
            continue
        if "InitVar" in text or "KW_ONLY" in text:
            raise TypeError(f"{cls.__qualname__}.{name}: {text} is not supported; see {__name__}")
        given = cls.__dict__.get(name, _MISSING)
        if type(given).__module__ == "dataclasses":
            raise TypeError(f"{cls.__qualname__}.{name} is a field() of the standard library; use that of {__name__}")
        if not isinstance(given, _Field):
            given = _Field(given, _MISSING, True, True, True, None)
        elif given.default is not _MISSING and given.default_factory is not _MISSING:
            raise TypeError(f"{cls.__qualname__}.{name} has both a default and a default_factory")
        if given.default is not _MISSING and type(given.default).__hash__ is None:
            raise TypeError(f"{cls.__qualname__}.{name}: a default {given.default!r} is shared; use default_factory")
        given.name, given.type, given.kw_only = name, kind, kw_only
        own[name] = given
    for name, given in cls.__dict__.items():
        if isinstance(given, _Field) and name not in own:
            raise TypeError(f"{cls.__qualname__}.{name} is a field without an annotation")
    return own


def _check_order(cls: type[Any], every: Mapping[str, _Field]) -> None:
    optional = ""
    for declared in every.values():
        if not declared.init or declared.kw_only:
            continue
        if declared.default is not _MISSING or declared.default_factory is not _MISSING:
            optional = declared.name
        elif optional:
            raise TypeError(f"{cls.__qualname__}.{declared.name} has no default but follows {optional}, which has one")


# -- methods that are compiled on first use


class _Lazy:
    """A method in its class until it is first looked up; then the compiled function takes its place."""

    __slots__ = ("frozen", "name", "owner", "source")

    owner: type[Any]
    frozen: bool

    def __init__(self, name: str, source: Callable[[type[Any], bool, dict[str, object]], str]) -> None:
        self.name = name
        self.source = source

    def __get__(self, instance: object, kind: type[Any] | None = None) -> Any:  # noqa: ANN401 -- a bound method
        function = self._compile()
        return function if instance is None else function.__get__(instance, kind)

    def _compile(self) -> Any:  # noqa: ANN401 -- a function, or the one that another thread put in its place
        owner = self.owner
        names: dict[str, object] = {}
        text = self.source(owner, self.frozen, names)
        outer = f"def make({', '.join(names)}):\n{text}\n return {self.name}"
        made: dict[str, Any] = {}
        module = sys.modules.get(owner.__module__)
        exec(
            compile(outer, f"<dataclass {owner.__module__}.{owner.__qualname__}>", "exec"),
            module.__dict__ if module else {},
            made,
        )
        function = made["make"](**names)
        function.__qualname__ = f"{owner.__qualname__}.{self.name}"
        if self.name == "__init__":
            function.__annotations__ = {it.name: it.type for it in _ordered(owner)} | {"return": None}
        setattr(owner, self.name, function)
        return function


def _ordered(owner: type[Any]) -> list[_Field]:
    """The parameters of `__init__`: positional ones, then those by name only."""
    parameters = [it for it in owner.__dict__[_FIELDS].values() if it.init]
    return sorted(parameters, key=lambda it: it.kw_only)


def _init_source(owner: type[Any], frozen: bool, names: dict[str, object]) -> str:
    parameters = ["self"]
    ordered = _ordered(owner)
    for declared in ordered:
        if declared.kw_only and "*" not in parameters:
            parameters.append("*")
        parameter = declared.name
        if declared.default is not _MISSING:
            parameter += f"=_default_{declared.name}"
            names[f"_default_{declared.name}"] = declared.default
        elif declared.default_factory is not _MISSING:
            parameter += "=_FACTORY"
        parameters.append(parameter)
    lines = [f" def __init__({', '.join(parameters)}):"]
    if frozen:
        names["_set"] = object.__setattr__
    for declared in owner.__dict__[_FIELDS].values():
        name, value = declared.name, declared.name
        if declared.default_factory is not _MISSING:
            names["_FACTORY"], names[f"_make_{name}"] = _FACTORY, declared.default_factory
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if declared.init else f"_make_{name}()"
        elif not declared.init:
            if declared.default is _MISSING:
                continue
            names[f"_default_{name}"], value = declared.default, f"_default_{name}"
        lines.append(f"  _set(self, {name!r}, {value})" if frozen else f"  self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        lines.append("  self.__post_init__()")
    if len(lines) == 1:
        lines.append("  pass")
    return "\n".join(lines)


def _values_of(variable: str, owner: type[Any]) -> str:
    return "".join(f"{variable}.{it.name}," for it in owner.__dict__[_FIELDS].values() if it.compare)


def _eq_source(owner: type[Any], frozen: bool, names: dict[str, object]) -> str:
    return (
        " def __eq__(self, other):\n"
        "  if other.__class__ is self.__class__:\n"
        f"   return ({_values_of('self', owner)}) == ({_values_of('other', owner)})\n"
        "  return NotImplemented"
    )


def _hash_source(owner: type[Any], frozen: bool, names: dict[str, object]) -> str:
    return f" def __hash__(self):\n  return hash(({_values_of('self', owner)}))"


# -- methods that all classes share


@recursive_repr()
def _show(self: Any) -> str:  # noqa: ANN401 -- an instance of any of these classes
    declared = getattr(self, _FIELDS).values()
    shown = ", ".join(f"{it.name}={getattr(self, it.name)!r}" for it in declared if it.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refusals(cls: type[Any], every: Mapping[str, _Field]) -> tuple[Callable[..., None], Callable[..., None]]:
    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in every:
            raise _frozen_error("assign to", name)
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in every:
            raise _frozen_error("delete", name)
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _frozen_error(verb: str, name: str) -> AttributeError:
    from dataclasses import FrozenInstanceError  # only where the error is raised: it takes 5 ms to import

    return FrozenInstanceError(f"cannot {verb} field {name!r}")


def _get_state(self: object) -> list[object]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _set_state(self: object, state: list[object]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)


def _replace(self: Any, /, **changes: object) -> Any:  # noqa: ANN401 -- type checkers see the standard library's
    """A copy of a dataclass instance with other values; as `dataclasses.replace`."""
    every = getattr(self, _FIELDS, None)
    if every is None:
        import dataclasses  # only for classes of the standard library, which have it loaded

        return dataclasses.replace(self, **changes)
    for name, declared in every.items():
        if not declared.init:
            if name in changes:
                raise ValueError(f"{type(self).__qualname__}.{name} is declared with init=False and cannot be replaced")
        elif name not in changes:
            changes[name] = getattr(self, name)
    return self.__class__(**changes)


def _fields(cls_or_instance: Any) -> tuple[Any, ...]:  # noqa: ANN401 -- type checkers see the standard library's
    """The fields of a class or instance; as `dataclasses.fields`.

    Raises:
        TypeError: it is no dataclass.
    """
    every = getattr(cls_or_instance, _FIELDS, None)
    if every is None:
        import dataclasses  # only for classes of the standard library, which have it loaded

        return dataclasses.fields(cls_or_instance)
    return tuple(every.values())


class _Standard:
    """What the standard library keeps in a dataclass, made when a function of `dataclasses` first asks for it."""

    __slots__ = ("eq", "frozen", "name")

    def __init__(self, name: str, eq: bool, frozen: bool) -> None:
        self.name = name
        self.eq = eq
        self.frozen = frozen

    def __get__(self, instance: object, kind: type[Any]) -> object:
        import dataclasses  # only when one of its functions is called, by whom it is loaded

        owner = next(base for base in kind.__mro__ if base.__dict__.get(self.name) is self)
        declared: list[tuple[str, Any, Any]] = [
            (it.name, it.type, _standard_field(it)) for it in owner.__dict__[_FIELDS].values()
        ]
        twin = dataclasses.make_dataclass(owner.__name__, declared, eq=self.eq, frozen=self.frozen)
        value: object = getattr(twin, self.name)
        setattr(owner, self.name, value)
        return value


def _standard_field(declared: _Field) -> Any:  # noqa: ANN401 -- dataclasses.Field, which is not imported
    import dataclasses  # as in `_Standard`

    given: dict[str, Any] = {}
    if declared.default is not _MISSING:
        given["default"] = declared.default
    if declared.default_factory is not _MISSING:
        given["default_factory"] = declared.default_factory
    return dataclasses.field(
        **given,
        init=declared.init,
        repr=declared.repr,
        compare=declared.compare,
        metadata=declared.metadata,
        kw_only=declared.kw_only,
    )


# -- named tuples


class _NamedTupleType(type):
    """Makes a tuple class of a class body, as `typing.NamedTuple` does, and keeps annotations as they are written."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:  # noqa: ANN401 -- a tuple class
        if len(bases) != 1:
            raise TypeError(f"{name}: a named tuple has no other base; see {__name__}")
        types: dict[str, object] = body.get("__annotations__", {})
        defaults = [body[field] for field in types if field in body]
        if any(field not in body for field in list(types)[len(types) - len(defaults) :]):
            raise TypeError(f"{name}: a field without a default follows one with a default")
        made: Any = namedtuple(name, types, defaults=defaults, module=body["__module__"])  # type: ignore[misc]
        made.__annotations__ = made.__new__.__annotations__ = types
        for key, value in body.items():
            if key not in types and key not in ("__module__", "__annotations__"):
                setattr(made, key, value)
        return made


_NamedTuple: Any = type.__new__(_NamedTupleType, "NamedTuple", (), {})


if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import Field as Field
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:
    MISSING = _MISSING
    Field = _Field
    dataclass = _dataclass
    field = _field
    fields = _fields
    replace = _replace
    NamedTuple = _NamedTuple
