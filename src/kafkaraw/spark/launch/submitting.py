"""Submit a job to a cluster by Spark's own `spark-submit`, with an archive for its executors.

`checked` refuses what Spark would refuse late or not at all; `plan` returns settings and environment; `submit` runs.
Settings and secrets go through a file that only this user can read and through the environment, never through
arguments: any user of a machine can read the command line of a process.

Start at `submit`; `run_driver` is for a driver that starts Spark itself.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch.executables import java_home, spark_home, worker_python
from kafkaraw.spark.launch.executor_python import SharedPath, check_archive, linked, shared_path
from kafkaraw.spark.launch.fork_server import SOCKET_VARIABLE, start_fork_server
from kafkaraw.spark.launch.session_builder import recommended_conf

CLIENT: Final = "client"
CLUSTER: Final = "cluster"
DEPLOY_MODES: Final = (CLIENT, CLUSTER)

_MASTER: Final = re.compile(r"yarn|spark://.+|k8s://.+|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|local(\[.+\])?")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDACTION: Final = "spark.redaction.regex"
_ARCHIVES: Final = "spark.archives"
_ENVIRONMENT: Final = "environment"
"""The folder of the unpacked archive, where the driver has it, too: in cluster mode."""
# Of recommended settings, those for a Spark without a user interface.
_NOT_IN_CLUSTERS: Final = ("spark.ui.enabled", "spark.ui.showConsoleProgress", "spark.sql.ui.explainMode")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job and where it runs.

    Attributes:
        job: the Python file of the driver, a path or URI; None for a driver that starts Spark itself.
        arguments: of the job. Other users of the machine can read them.
        master: Spark's master URL.
        deploy_mode: "client": the driver runs here; "cluster": on the cluster.
        archive: of `kafkaraw spark pack`, a path or URI; None if executors have the packages.
        worker_python: the Python of executors that have the packages; None with an archive.
        conf: settings by Spark's names.
        secrets: environment variables of the driver by name.
        name: of the application; None for Spark's default.
        py_files: modules that driver and executors get, too.
        more_archives: further archives, as spark.archives takes them.
    """

    job: str | None = None
    arguments: tuple[str, ...] = ()
    master: str = "local[*]"
    deploy_mode: str = CLIENT
    archive: str | None = None
    worker_python: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str | None = None
    py_files: tuple[str, ...] = ()
    more_archives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """What `spark-submit` is started with.

    Attributes:
        conf: the content of its properties file.
        environment: variables to set; None to remove one.
        arguments: after `--properties-file`.
    """

    conf: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str | None] = field(repr=False)
    arguments: tuple[str, ...]


def checked(submission: Submission) -> Submission:
    """Return the submission.

    Raises:
        ConfigError: Spark cannot run it, or would do so without the packages, or would show a secret.
    """
    master, mode = submission.master, submission.deploy_mode
    if not _MASTER.fullmatch(master):
        raise ConfigError(
            f"the master {master!r} is none that Spark knows: give spark://HOST:PORT, yarn, k8s://URL, "
            "local-cluster[WORKERS,CORES,MEGABYTES] or local[CORES]"
        )
    if mode == CLUSTER:
        _check_cluster_mode(submission)
    if submission.job is not None and "://" not in submission.job and not Path(submission.job).is_file():
        raise ConfigError(f"the job {submission.job} does not exist")
    if submission.archive is not None and submission.worker_python is not None:
        raise ConfigError("an archive has its own Python: give --archive or --worker-python, not both")
    if submission.archive is not None:
        check_archive(submission.archive, driver_here=mode == CLIENT)
    elif submission.worker_python is None and not _is_on_this_machine(master):
        raise ConfigError(
            f"the executors of {master} need a Python with kafkaraw: make an archive with `kafkaraw spark pack` and "
            "give it with --archive, or name a Python that has the packages on every worker with --worker-python"
        )
    _check_secrets(submission)
    return submission


def _is_on_this_machine(master: str) -> bool:
    return master.startswith("local")


def _check_cluster_mode(submission: Submission) -> None:
    master = submission.master
    if master.startswith("spark://"):
        raise ConfigError(
            f"Spark's standalone clusters ({master}) run drivers in Python in client mode only: leave out "
            "--deploy-mode cluster, and start the command on a machine that the workers can connect to"
        )
    if _is_on_this_machine(master):
        raise ConfigError(f"the master {master} has no cluster mode: leave out --deploy-mode cluster")
    if master.startswith("k8s://") and submission.secrets:
        [first, *_] = submission.secrets
        raise ConfigError(
            f"--secret {first}: Kubernetes would show it in the driver's pod; create a Secret there, and give "
            f"--conf spark.kubernetes.driver.secretKeyRef.{first}=SECRET:KEY"
        )


def _check_secrets(submission: Submission) -> None:
    for name, value in submission.secrets.items():
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(f"--secret {name!r}: give the name of an environment variable, or NAME=FILE")
        if value and any(value in argument for argument in submission.arguments):
            raise ConfigError(
                f"an argument of the job contains the secret {name}, and every user of this machine can read the "
                f'arguments of a process: read it in the job as os.environ["{name}"]'
            )


def plan(submission: Submission, shared: SharedPath | None) -> SubmitPlan:
    """Return what `spark-submit` is started with.

    Args:
        submission: a checked one.
        shared: the archive and the path of its Python; None without an archive.
    """
    python = shared.python if shared is not None else submission.worker_python or worker_python()
    conf = {
        name: value for name, value in recommended_conf(checkpoints_local=False).items() if name not in _NOT_IN_CLUSTERS
    }
    if not _is_on_this_machine(submission.master):
        conf["spark.submit.deployMode"] = submission.deploy_mode
    if submission.name is not None:
        conf["spark.app.name"] = submission.name
    conf |= submission.conf
    conf["spark.master"] = submission.master
    archives = [conf.get(_ARCHIVES, ""), *([] if shared is None else [shared.archives]), *submission.more_archives]
    if any(archives):
        conf[_ARCHIVES] = ",".join(filter(None, archives))
    if submission.py_files:
        conf["spark.submit.pyFiles"] = ",".join(filter(None, [conf.get("spark.submit.pyFiles"), *submission.py_files]))
    # The JVM must not have the variable: it would use it on executors.
    environment: dict[str, str | None] = {"PYSPARK_DRIVER_PYTHON": None, "PYSPARK_PYTHON": python}
    conf["spark.pyspark.python"] = python
    if submission.deploy_mode == CLIENT:
        conf["spark.pyspark.driver.python"] = sys.executable
        environment |= submission.secrets
    else:
        conf |= _of_remote_driver(submission, python)
    conf[_REDACTION] = _redaction(conf[_REDACTION], submission.secrets)
    job = [] if submission.job is None else [submission.job]
    return SubmitPlan(conf, environment, (*job, *submission.arguments))


def _of_remote_driver(submission: Submission, python: str) -> dict[str, str]:
    """Return settings for the environment of a driver on the cluster."""
    prefix = "spark.yarn.appMasterEnv." if submission.master == "yarn" else "spark.kubernetes.driverEnv."
    variables = {**submission.secrets, "PYSPARK_PYTHON": python}
    return {f"{prefix}{name}": value for name, value in variables.items()}


def _redaction(pattern: str, secrets: Mapping[str, str]) -> str:
    """Return the pattern of what Spark hides, with the names of the variables."""
    return "|".join([pattern, *(rf"[.]{re.escape(name)}$" for name in secrets)])


def submit(submission: Submission) -> int:
    """Run a job; return the exit code of `spark-submit`, which is that of the driver in client mode.

    SIGTERM is passed on; Ctrl-C reaches the driver by itself.

    Raises:
        ConfigError: see `checked`; or there is no usable Java.
    """
    with _prepared(submission) as (planned, properties):
        command = [str(spark_home() / "bin" / "spark-submit"), "--properties-file", str(properties), *planned.arguments]
        return _run(command, _environment(planned.environment))


def run_driver(submission: Submission, command: Sequence[str]) -> int:
    """Run a command that starts Spark itself, with the settings of a submission; return its exit code.

    The command receives signals before Spark does, so it can end gracefully.

    Args:
        submission: in client mode.
        command: the driver, with its arguments.

    Raises:
        ConfigError: see `checked`; or there is no usable Java.
    """
    assert submission.deploy_mode == CLIENT
    with _prepared(submission) as (planned, properties):
        spark_arguments = {"PYSPARK_SUBMIT_ARGS": shlex.join(["--properties-file", str(properties), "pyspark-shell"])}
        return _run(list(command), _environment({**planned.environment, **spark_arguments}))


@contextmanager
def _prepared(submission: Submission) -> Iterator[tuple[SubmitPlan, Path]]:
    """Make what a run needs, for as long as it runs; yield the plan and the properties file."""
    checked(submission)
    with ExitStack() as stack:
        shared = None
        if submission.archive is not None and submission.deploy_mode == CLIENT:
            shared = stack.enter_context(linked(submission.archive))
        elif submission.archive is not None:
            shared = shared_path(submission.archive, _ENVIRONMENT)
        planned = plan(submission, shared)
        if submission.deploy_mode == CLIENT:
            # The driver's JVM starts a Python process for each query and each commit.
            socket = str(start_fork_server() or "")
            planned = replace(planned, environment={**planned.environment, SOCKET_VARIABLE: socket})
        yield planned, stack.enter_context(_properties_file(planned.conf))


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    variables = {**os.environ, **{name: value for name, value in changes.items() if value is not None}}
    for name, value in changes.items():
        if value is None:
            variables.pop(name, None)
    home = java_home()
    if home is not None:
        variables["JAVA_HOME"] = str(home)
    variables["SPARK_HOME"] = str(spark_home())
    return variables


@contextmanager
def _properties_file(conf: Mapping[str, str]) -> Iterator[Path]:
    """Write settings to a file that only this user can read, in the format of java.util.Properties."""
    descriptor, name = tempfile.mkstemp(prefix="kafkaraw-submit-", suffix=".conf")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in sorted(conf.items()))
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _escaped(text: str) -> str:
    """Return a key or value of a properties file, in ASCII: Java escapes other characters as UTF-16 units."""
    units = text.encode("utf-16-be")
    characters = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        chr(unit) if 0x20 < unit < 0x7F and chr(unit) not in "\\=:#!" else f"\\u{unit:04x}" for unit in characters
    )


def _run(command: list[str], environment: Mapping[str, str]) -> int:
    process = subprocess.Popen(command, env=environment)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:
                continue  # the terminal has sent it to the driver, too, which ends
    finally:
        signal.signal(signal.SIGTERM, before)
    return code if code >= 0 else 128 - code
