"""Files on local disks without a process for each of them.

Java can set a file's permissions itself, but Hadoop runs `chmod` for it if its native library is missing, as it is
after an installation with pip: for each file and its checksum, four times per micro-batch, and more with state stores.
Spark brings a compiler for its own code, so a class that calls Java instead is compiled at run time. Nothing else
about files changes. Must not fail: without it, files only take longer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_REPLACED: Final = "org.apache.hadoop.fs.RawLocalFileSystem"
_CLASS: Final = "kafkaraw.LocalFiles"
_SOURCE: Final = """
package kafkaraw;

public final class LocalFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(
            org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission)
            throws java.io.IOException {
        org.apache.hadoop.fs.permission.FsPermission plain =
            new org.apache.hadoop.fs.permission.FsPermission(permission.toShort());
        java.nio.file.attribute.PosixFileAttributeView file =
            (java.nio.file.attribute.PosixFileAttributeView) java.nio.file.Files.getFileAttributeView(
                this.pathToFile(path).toPath(),
                java.nio.file.attribute.PosixFileAttributeView.class,
                new java.nio.file.LinkOption[0]);
        if (file == null || plain.getStickyBit()) {  // what Java cannot set
            super.setPermission(path, permission);
        } else {
            file.setPermissions(java.nio.file.attribute.PosixFilePermissions.fromString(plain.toString()));
        }
    }

    public void serve(org.apache.hadoop.fs.LocalFileSystem local) throws java.lang.Exception {
        this.initialize(java.net.URI.create("file:///"), local.getConf());
        java.lang.reflect.Field raw = org.apache.hadoop.fs.FilterFileSystem.class.getDeclaredField("fs");
        raw.setAccessible(true);
        raw.set(local, this);
    }
}
"""


def without_processes(spark: SparkSession) -> bool:
    """Make this driver's JVM set permissions of local files itself.

    Returns:
        whether it does; not if the session has no JVM here, or another file system of its own for local files.
    """
    jvm, java_context = getattr(spark, "_jvm", None), getattr(spark, "_jsc", None)
    if jvm is None or java_context is None:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _replaced(jvm, java_context.hadoopConfiguration())
    except (Py4JError, PySparkException, TypeError) as error:  # TypeError: a class does not exist
        _log.info("a process is started for each file that Spark writes to local disks: %s", error)
        return False


def _replaced(jvm: JVMView, hadoop_conf: JavaObject) -> bool:
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop_conf)
    now = local.getRaw().getClass().getName()
    if now == _REPLACED:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(local.getClass().getClassLoader())
        compiler.cook(_SOURCE)
        compiler.getClassLoader().loadClass(_CLASS).newInstance().serve(local)
        return True
    return bool(now == _CLASS)
