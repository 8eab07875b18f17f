"""How client settings are declared and checked; `config.py` is the table of them.

A setting is one dataclass field made by `setting()`: name, type, default, unit, limits and text stand in one place,
and `build()` derives everything else from it. Nothing here knows a particular setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field, fields

_KEY = "kafkaraw.setting"

T = TypeVar("T")
C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known about one setting apart from its name, type and default.

    Attributes:
        doc: what it does, one sentence.
        unit: "ms", "s", "bytes", or "" when it has none.
        minimum: smallest allowed number.
        maximum: largest allowed number.
        choices: the allowed values, when they can be listed.
        convert: turns what the user gave into the value kept; raises ValueError with a text for the user.
        accepts: the type that type checkers require, if it is neither the declared type nor one of `choices`.
        secret: its value is shown nowhere.
    """

    doc: str
    unit: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[object, ...] = ()
    convert: Callable[[object], object] | None = None
    accepts: str = ""
    secret: bool = False


def setting(  # noqa: PLR0913 - by name only, one for each column of the table of settings
    default: T,
    doc: str,
    *,
    unit: str = "",
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[object, ...] = (),
    convert: Callable[[object], object] | None = None,
    accepts: str = "",
    secret: bool = False,
) -> T:
    """Declare one setting as a dataclass field; see `Setting` for the arguments."""
    about = Setting(
        doc=doc,
        unit=unit,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        convert=convert,
        accepts=accepts,
        secret=secret,
    )
    return field(default=default, metadata={_KEY: about}, repr=not secret)


def settings_of(kind: type) -> dict[str, Setting]:
    """All settings of a configuration class, by name, in the order of their declaration."""
    return {it.name: it.metadata[_KEY] for it in fields(kind) if _KEY in it.metadata}


def build(
    kind: type[C],
    given: Mapping[str, object],
    *,
    elsewhere: Mapping[str, str] | None = None,
    from_text: bool = False,
) -> C:
    """Check settings and build the configuration from them.

    Args:
        kind: the configuration class, such as `ConsumerConfig`.
        given: what the user passed, by name.
        elsewhere: names that are known but not valid here, with what to do instead.
        from_text: values may be strings ("true", "500"), as in Spark options and properties files.

    Raises:
        ConfigError: a name is unknown (the nearest one is suggested) or a value does not fit; all of them are named.
    """
    known = settings_of(kind)
    problems: list[str] = []
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            problems.append(unknown_name(name, known, elsewhere or {}))
            continue
        try:
            values[name] = _checked(_declared_type(kind, name), known[name], value, from_text=from_text)
        except ValueError as error:
            shown = "[hidden]" if known[name].secret else repr(value)
            problems.append(f"{name}={shown}: {error}")
    if problems:
        raise ConfigError("; ".join(problems))
    return kind(**values)


def unknown_name(name: str, known: Iterable[str], elsewhere: Mapping[str, str], what: str = "setting") -> str:
    """The message for a name that is not declared, with the nearest one that is."""
    plain = name.replace(".", "_").replace("-", "_").lower()
    if plain in elsewhere:
        return f"{what} {name!r} is not accepted here: {elsewhere[plain]}"
    import difflib  # only for the message of an error

    names = list(known)
    near = [plain] if plain in names else difflib.get_close_matches(plain, names, n=1, cutoff=0.6)
    return f"unknown {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _declared_type(kind: type, name: str) -> str:
    """The annotation of a field as text (annotations are strings in this package)."""
    return next(str(it.type) for it in fields(kind) if it.name == name)


def _checked(declared: str, about: Setting, value: object, *, from_text: bool) -> object:
    if from_text and isinstance(value, str):
        value = _from_text(declared, value)
    if about.convert is not None:
        value = about.convert(value)
    elif value is None and "None" in declared:
        return None
    else:
        _check_type(declared, about, value, from_text=from_text)
    if about.choices and value not in about.choices:
        choices = ", ".join(repr(choice) for choice in about.choices if choice is not None)
        raise ValueError(f"must be one of {choices}{_nearest_choice(value, about)}")
    _check_limits(about, value)
    return value


# What a value has to be, how that is called in Python, and where values are texts.
_TYPES: dict[str, tuple[type, str, str]] = {
    "int": (int, "a whole number", "a whole number"),
    "bool": (bool, "True or False", "'true' or 'false'"),
    "str": (str, "text", "text"),
}


_UNITS = {"ms": "milliseconds", "s": "seconds"}


def _check_type(declared: str, about: Setting, value: object, *, from_text: bool) -> None:
    wanted, name, as_text = _TYPES[declared.partition(" ")[0]]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        unit = f" of {_UNITS.get(about.unit, about.unit)}" if about.unit else ""
        if from_text and isinstance(value, str):
            raise ValueError(f"must be {as_text}{unit}")
        raise ValueError(f"must be {name}{unit}, not {type(value).__name__}")


def _check_limits(about: Setting, value: object) -> None:
    if not isinstance(value, int):
        return
    unit = f" {about.unit}" if about.unit else ""
    if about.minimum is not None and value < about.minimum:
        raise ValueError(f"must be at least {about.minimum}{unit}")
    if about.maximum is not None and value > about.maximum:
        raise ValueError(f"must be at most {about.maximum}{unit}")


def _nearest_choice(value: object, about: Setting) -> str:
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(str(value).lower(), [str(choice) for choice in about.choices], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


_BOOLEANS = {"true": True, "false": False}


def _from_text(declared: str, text: str) -> object:
    kind = declared.partition(" ")[0]
    if kind == "int":
        try:
            return int(text.strip())
        except ValueError:
            return text
    return _BOOLEANS.get(text.strip().lower(), text) if kind == "bool" else text
