"""Which wheels the release build refuses."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from release.archive import recompress
from release.distributions import MAX_WHEEL_BYTES, RefusedError, check_wheel, compiled_modules

MODULES = ("kafkaraw.records._builder", "kafkaraw.schemas.arrow._memory")
WHOLE = (
    "kafkaraw/py.typed",
    "kafkaraw/records/_builder.cpython-313-x86_64-linux-gnu.so",
    "kafkaraw/schemas/arrow/_memory.cpython-313-x86_64-linux-gnu.so",
    "kafkaraw-0.1.0.dist-info/METADATA",
    "pyspark_kafkaraw.py",
    "pyspark_kafkaraw_delta.py",
    "pyspark_kafkaraw_iceberg.py",
)


def wheel_of(
    folder: Path, names: tuple[str, ...], tag: str = "cp313-cp313-manylinux_2_17_x86_64", size: int = 0
) -> Path:
    path = folder / f"kafkaraw-0.1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"\0" * size)
    return path


def test_a_wheel_with_all_compiled_modules_is_accepted(tmp_path: Path) -> None:
    check_wheel(wheel_of(tmp_path, WHOLE), MODULES)


def test_the_compiled_modules_are_those_of_setup_py() -> None:
    names = compiled_modules()
    assert "kafkaraw.records._batch_table" in names
    without_source = [name for name in names if not Path("src", *name.split(".")).with_suffix(".py").is_file()]
    assert without_source == ["kafkaraw.records._cython_shared"]


@pytest.mark.parametrize(
    ("names", "tag", "size", "message"),
    [
        (
            WHOLE[:2] + WHOLE[3:],
            "cp313-cp313-manylinux_2_17_x86_64",
            0,
            r"no compiled kafkaraw\.schemas\.arrow\._memory",
        ),
        (WHOLE[1:], "cp313-cp313-manylinux_2_17_x86_64", 0, "no kafkaraw/py.typed"),
        (
            (*WHOLE, "tests/conftest.py"),
            "cp313-cp313-manylinux_2_17_x86_64",
            0,
            "outside of the package: tests/conftest",
        ),
        (WHOLE, "cp313-cp313-manylinux_2_17_x86_64", MAX_WHEEL_BYTES // 4, f"more than {MAX_WHEEL_BYTES:,}"),
        (WHOLE, "cp313-cp313-linux_x86_64", 0, "repair it with auditwheel"),
    ],
    ids=["no-module", "no-types", "tests-inside", "too-large", "linux-tag"],
)
def test_a_wheel_that_must_not_be_published_is_refused(
    tmp_path: Path, names: tuple[str, ...], tag: str, size: int, message: str
) -> None:
    with pytest.raises(RefusedError, match=message):
        check_wheel(wheel_of(tmp_path, names, tag, size), MODULES)


def test_a_recompressed_wheel_has_the_same_files(tmp_path: Path) -> None:
    path = wheel_of(tmp_path, (*WHOLE, "kafkaraw/naïve.py"), size=5_000)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("kafkaraw/empty.py", (2026, 11, 28, 9, 30, 58)), b"")
        archive.write(Path(__file__), "kafkaraw/source.py")
    before, size = contents_of(path), path.stat().st_size
    recompress(path)
    assert contents_of(path) == before
    assert path.stat().st_size < size


def contents_of(path: Path) -> list[tuple[str, bytes, tuple[int, ...], int]]:
    with zipfile.ZipFile(path) as archive:
        return [(it.filename, archive.read(it), it.date_time, it.external_attr) for it in archive.infolist()]
