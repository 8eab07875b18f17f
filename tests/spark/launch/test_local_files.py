"""Files on local disks, as Spark writes them with what `session()` replaces."""

from __future__ import annotations

import os
import stat

import pytest

from kafkaraw.spark.launch.local_files import without_processes


@pytest.fixture(scope="module")
def files(spark):
    """Hadoop's local file system in the driver, and its `Path` and `FsPermission`."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    local = hadoop.FileSystem.getLocal(spark.sparkContext._jsc.hadoopConfiguration())
    return local, hadoop.Path, hadoop.permission.FsPermission


def _mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_session_has_it_and_asking_again_changes_nothing(spark, files):
    local, _, _ = files
    first = local.getRaw()
    assert first.getClass().getName() == "kafkaraw.LocalFiles"
    assert without_processes(spark)
    assert local.getRaw().equals(first)


def test_files_have_the_permissions_and_checksums_that_they_always_had(spark, files, tmp_path):
    local, path, _ = files
    plain = spark._jvm.org.apache.hadoop.fs.LocalFileSystem()
    plain.initialize(spark._jvm.java.net.URI("file:///"), local.getConf())
    for system, name in ((local, "ours"), (plain, "theirs")):
        system.create(path(f"{tmp_path}/{name}/file"), True).close()
    ours, theirs = ({each.name: _mode(each) for each in (tmp_path / name).iterdir()} for name in ("ours", "theirs"))
    assert ours == theirs
    assert set(ours) == {"file", ".file.crc"}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o777, 0o000])
def test_permissions_are_set_as_asked(files, tmp_path, mode):
    local, path, permission = files
    (tmp_path / "file").touch()
    local.setPermission(path(str(tmp_path / "file")), permission(f"{mode:03o}"))
    assert _mode(tmp_path / "file") == mode


def test_permissions_that_java_cannot_set_are_set_as_before(files, tmp_path):
    local, path, permission = files
    local.setPermission(path(str(tmp_path)), permission("1777"))
    assert _mode(tmp_path) == 0o1777


def test_a_file_that_is_not_there_is_an_error(files, tmp_path):
    local, path, permission = files
    with pytest.raises(Exception, match="absent"):
        local.setPermission(path(str(tmp_path / "absent")), permission("600"))


def test_a_session_without_a_jvm_is_left_alone():
    class Remote:
        """As a session of Spark Connect: it has no such attribute."""

    assert not without_processes(Remote())
