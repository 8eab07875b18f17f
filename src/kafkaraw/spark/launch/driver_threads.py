"""Let every Python thread of the driver use the session, also after Ctrl-C.

Spark finds a Python data source only in a JVM thread that has an active session. PySpark sets one in the JVM thread
of the Python thread that made the session, and in no other. So in a service's other threads, and in a notebook after
Ctrl-C (py4j drops the connection and continues on a new JVM thread), every write with a Python data source failed
with DATA_SOURCE_NOT_FOUND. A new JVM thread inherits the active session of the thread that accepts py4j's
connections, so a listener sets it there. Ctrl-C has a second fault: PySpark cancels the running jobs over the
connection that is waiting for their result, which fails, so they keep the cores; here another thread cancels them.

Must not be needed for the thread that made the session, and must not raise. Start at `share_session`.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JavaObject
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_GATEWAY_SERVER: Final = "GATEWAY_SERVER"  # py4j's name of the object that accepts connections
_CLASS: Final = "kafkaraw.ActiveSession"
_SOURCE: Final = """
package kafkaraw;

public final class ActiveSession extends py4j.DefaultGatewayServerListener {
    private volatile org.apache.spark.sql.classic.SparkSession session;

    public void use(org.apache.spark.sql.classic.SparkSession session) {
        this.session = session;
    }

    public void connectionStarted(py4j.Py4JServerConnection connection) {  // on the thread that accepts connections
        if (this.session.sparkContext().isStopped()) {
            org.apache.spark.sql.classic.SparkSession.clearActiveSession();
        } else {
            org.apache.spark.sql.classic.SparkSession.setActiveSession(this.session);
        }
    }
}
"""
_CANCELLING_S: Final = 5.0

_listeners: dict[int, JavaObject] = {}
"""By the id of the gateway: one listener for each JVM that this process has connected to."""


def share_session(spark: SparkSession) -> bool:
    """Make a session the active one of JVM threads that serve other Python threads, and let Ctrl-C cancel its jobs.

    Returns:
        whether it succeeded; False for a session without a JVM in this process (Spark Connect).
    """
    context = getattr(spark, "_sc", None)
    if context is None or getattr(spark, "_jsparkSession", None) is None:
        return False
    from py4j.protocol import Py4JError

    try:
        _activate(context._gateway, spark)  # noqa: SLF001  # PySpark has no public name for it
    except (Py4JError, TypeError) as error:  # TypeError: a class does not exist in this version of Spark
        _log.info("format kafkaraw can be written by the thread that made the session only: %s", error)
        return False
    _cancel_jobs_on_interrupt(context)
    return True


def _activate(gateway: JavaGateway, spark: SparkSession) -> None:
    listener = _listeners.get(id(gateway))
    if listener is None:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(gateway.jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE)
        listener = compiler.getClassLoader().loadClass(_CLASS).newInstance()
    listener.use(spark._jsparkSession)  # noqa: SLF001
    if id(gateway) not in _listeners:
        from py4j.java_gateway import JavaObject

        JavaObject(_GATEWAY_SERVER, gateway._gateway_client).addListener(listener)  # noqa: SLF001
        _listeners[id(gateway)] = listener
    # The listener is called after the thread of a new connection was made: the next connection is the first to inherit.
    opened = threading.Thread(target=gateway.jvm.System.nanoTime, name="kafkaraw-first-connection")
    opened.start()
    opened.join()


def _cancel_jobs_on_interrupt(context: SparkContext) -> None:
    """Replace PySpark's handler of Ctrl-C, if it is installed, by one that does what PySpark's intends."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    if getattr(handler, "__module__", None) != type(context).__module__:
        return

    def cancel_and_interrupt(_signal: int, _frame: FrameType | None) -> None:
        cancelling = threading.Thread(
            target=_cancel_all_jobs, args=(context,), name="kafkaraw-cancel-jobs", daemon=True
        )
        cancelling.start()
        cancelling.join(_CANCELLING_S)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, cancel_and_interrupt)


def _cancel_all_jobs(context: SparkContext) -> None:
    from py4j.protocol import Py4JError

    try:
        context.cancelAllJobs()
    except Py4JError as error:
        _log.warning("running Spark jobs could not be cancelled after Ctrl-C: %s", error)
