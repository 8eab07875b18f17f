"""The public names: what `import kafkaraw` costs, and that the blocking and the async faces are the same twice."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import kafkaraw
import kafkaraw.client.admin
import kafkaraw.client.consumer
import kafkaraw.client.producer
import kafkaraw.errors

FACES = [
    (kafkaraw.Producer, kafkaraw.AsyncProducer),
    (kafkaraw.Consumer, kafkaraw.AsyncConsumer),
    (kafkaraw.Admin, kafkaraw.AsyncAdmin),
]
HEAVY = ["asyncio", "ssl", "pyarrow", "pyspark", "click", "rich", "lz4", "zstandard", "cramjam", "crc32c", "re2"]

# Spelled differently in Python itself: `async for` and `for`, `async with` and `with`.
TWINS = {
    "__iter__": "__aiter__",
    "__next__": "__anext__",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_imports_next_to_nothing():
    loaded = run_python(
        "import sys; before = set(sys.modules); import kafkaraw; print(*sorted(set(sys.modules) - before))"
    ).split()
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    assert [name for name in loaded if name.startswith("kafkaraw.")] == ["kafkaraw._version"]


def test_a_client_needs_neither_arrow_nor_spark_nor_the_command_line():
    loaded = run_python(
        "import sys, kafkaraw; kafkaraw.Producer, kafkaraw.Consumer, kafkaraw.Admin; print(*sys.modules)"
    )
    assert {"pyarrow", "pyspark", "click", "rich"}.isdisjoint(loaded.split())


def test_every_public_name_is_there_and_listed():
    assert set(kafkaraw.__all__) <= set(dir(kafkaraw))
    for name in kafkaraw.__all__:
        value = getattr(kafkaraw, name)
        assert name.startswith("__") or inspect.getdoc(value) or not inspect.isclass(value), name
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = kafkaraw.NoSuchThing


def test_what_a_type_checker_sees_is_what_there_is():
    """The imports under TYPE_CHECKING and the table of the lazy ones must name the same things."""
    source = inspect.getsource(kafkaraw)
    for name in kafkaraw.__all__:
        if not name.startswith("__"):
            home = next(home for home, names in kafkaraw._HOMES.items() if name in names)
            assert f"    from {home} import {name} as {name}\n" in source


def test_every_exception_is_public():
    classes = {
        name for name, value in vars(kafkaraw.errors).items() if inspect.isclass(value) and not name.startswith("_")
    }
    own = {name for name in classes if getattr(kafkaraw.errors, name).__module__ == "kafkaraw.errors"}
    assert own <= set(kafkaraw.__all__)


def public_methods(face: type) -> dict[str, object]:
    found = {
        name: getattr(face, name) if isinstance(value, classmethod) else value for name, value in vars(face).items()
    }
    return {
        name: value
        for name, value in found.items()
        if inspect.isroutine(value) and (not name.startswith("_") or name in TWINS or name == "__init__")
    }


@pytest.mark.parametrize(("blocking", "asynchronous"), FACES)
def test_both_faces_have_the_same_methods(blocking, asynchronous):
    own = {TWINS.get(name, name) for name in public_methods(blocking)}
    other = {name for name in vars(asynchronous) if name in TWINS.values()} | set(public_methods(asynchronous))
    assert own == other


@pytest.mark.parametrize(("blocking", "asynchronous"), FACES)
def test_both_faces_take_the_same_arguments(blocking, asynchronous):
    for name, method in public_methods(blocking).items():
        twin = getattr(asynchronous, TWINS.get(name, name), None)
        if twin is None or name in TWINS:
            continue
        assert inspect.signature(method).parameters == inspect.signature(twin).parameters, name


@pytest.mark.parametrize(("blocking", "asynchronous"), FACES)
def test_both_faces_return_the_same(blocking, asynchronous):
    """What an async method gives when awaited; an async iterator becomes an iterator."""
    for name, method in public_methods(blocking).items():
        twin = getattr(asynchronous, name, None)
        if twin is None or name in TWINS:
            continue
        expected = str(inspect.signature(twin).return_annotation).replace("AsyncIterator", "Iterator")
        assert str(inspect.signature(method).return_annotation) == expected, name


@pytest.mark.parametrize(("blocking", "asynchronous"), FACES)
def test_both_faces_have_the_same_documentation(blocking, asynchronous):
    for name, method in public_methods(blocking).items():
        if name.startswith("__"):
            continue
        assert inspect.getdoc(method), name
        assert inspect.getdoc(method) == inspect.getdoc(getattr(asynchronous, name)), name


@pytest.mark.parametrize(("blocking", "asynchronous"), FACES)
def test_only_one_face_is_async(blocking, asynchronous):
    assert not [name for name, method in public_methods(blocking).items() if inspect.iscoroutinefunction(method)]
    assert asynchronous.__name__ == "Async" + blocking.__name__


@pytest.mark.parametrize(("blocking", "asynchronous"), FACES)
def test_an_unknown_setting_is_an_error_that_names_the_nearest(blocking, asynchronous):
    for face in (blocking, asynchronous):
        with pytest.raises(kafkaraw.ConfigError, match="did you mean 'client_id'"):
            face(bootstrap_servers="localhost:9092", client_id_="me")
