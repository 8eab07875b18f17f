"""What tests make once per user is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.java_options import made_once, shared_options


def test_a_file_is_made_by_the_first_who_needs_it(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "file"
    with made_once(target) as scratch:
        assert scratch is not None
        scratch.write_text("made")
        assert not target.exists()
    assert target.read_text() == "made"
    with made_once(target) as scratch:
        assert scratch is None


def test_what_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with pytest.raises(OSError, match="no more space"), made_once(target) as scratch:
        assert scratch is not None
        scratch.write_text("part of it")
        raise OSError("no more space")
    assert not target.exists()
    with made_once(target) as scratch:
        assert scratch is not None


def test_a_jvm_that_writes_no_archive_is_not_asked_again_and_others_start_without_one(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    with made_once(archive) as scratch:
        assert scratch is not None
    with made_once(archive) as scratch:
        assert scratch is None
    assert shared_options(archive) == ()
    archive.write_bytes(b"classes")
    assert f"-XX:SharedArchiveFile={archive}" in shared_options(archive)
