"""Let each query see the records that a topic has when the query starts, not those of the DataFrame's first query.

Spark asks a Python data source for the partitions of a batch read once for each `load()` (since Spark 4.1
`PythonDataSourceV2` remembers them): a DataFrame or view that is used again returns the old rows, and so does the batch
side of a join with a stream. An optimizer rule puts a new scan of each relation of the format into each query. Spark
plans the partitions of a query once, before its tasks run, so all tasks of a query, also repeated ones, and all uses of
a relation in it see one snapshot.

Spark also keeps the plan of a query with its DataFrame: `collect()` and similar methods, called again on one DataFrame
object, run the plan of the first call. So these methods of PySpark are wrapped, and plan relations bound by the rule
again.

The rule is a Java class, `LateBinding.java`, which Spark's own compiler compiles on the driver; executors do not need
it. Must not raise. Start at `bind_late`; docs/decisions/0027-batch-reads-bind-late.md lists the alternatives.
"""

from __future__ import annotations

import functools
import logging
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JavaObject
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_CLASS: Final = "kafkaraw.LateBinding"

# The methods of PySpark's DataFrame that run its own plan; others make a new DataFrame with another plan.
_ACTIONS: Final = ("collect", "toArrow", "toPandas", "toLocalIterator")

_MARK: Final = "_kafkaraw_plans_anew"

_rules: dict[JavaGateway, JavaObject] = {}
"""The rule in each JVM that this process has connected to."""


def bind_late(spark: SparkSession, format_name: str) -> bool:
    """Make batch reads of a format ask for their partitions in each query of this session.

    Streaming queries that start afterwards do so, too. A session made by `newSession()` does not.

    Args:
        spark: the session.
        format_name: the format, as given to `format()`.

    Returns:
        whether it succeeded; False for a session without a JVM in this process (Spark Connect).
    """
    context, java_session = getattr(spark, "_sc", None), getattr(spark, "_jsparkSession", None)
    if context is None or java_session is None:
        return False
    from py4j.protocol import Py4JError
    from pyspark.sql.classic.dataframe import DataFrame as FrameOfJvm

    gateway = context._gateway  # noqa: SLF001  # PySpark has no public name for it
    try:
        rule = _rules.get(gateway)
        if rule is None:
            rule = _rules[gateway] = _compiled(gateway, format_name)
        _add(gateway, java_session.experimental(), rule)
    except (Py4JError, TypeError) as error:  # TypeError: a class does not exist in this version of Spark
        _log.warning("a DataFrame of %s gives the same rows whenever it is used: %s", format_name, error)
        return False
    for name in _ACTIONS:
        _let_plan_anew(FrameOfJvm, name)
    return True


def _add(gateway: JavaGateway, methods: JavaObject, rule: JavaObject) -> None:
    """Add the rule to those of a session, unless it has it already."""
    converters = gateway.jvm.scala.jdk.javaapi.CollectionConverters
    rules = gateway.jvm.java.util.ArrayList(converters.asJava(methods.extraOptimizations()))
    if not rules.contains(rule):
        rules.add(rule)
        getattr(methods, "extraOptimizations_$eq")(converters.asScala(rules).toSeq())


def _let_plan_anew(frame_class: type[DataFrame], name: str) -> None:
    """Wrap a method of DataFrames so that it does not use the plan of an earlier call that the rule has bound."""
    original = getattr(frame_class, name)
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def anew(frame: DataFrame, *args: object, **named: object) -> object:
        rule = _rules.get(frame.sparkSession.sparkContext._gateway)  # noqa: SLF001
        java_frame = frame._jdf  # noqa: SLF001
        renewed = java_frame if rule is None else rule.renewed(java_frame)
        frame = frame if renewed.equals(java_frame) else type(frame)(renewed, frame.sparkSession)
        return original(frame, *args, **named)

    setattr(anew, _MARK, True)
    setattr(frame_class, name, anew)


def _compiled(gateway: JavaGateway, format_name: str) -> JavaObject:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(gateway.jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(files(__package__).joinpath("LateBinding.java").read_text(encoding="utf-8"))
    arguments = gateway.new_array(gateway.jvm.Object, 1)
    arguments[0] = format_name
    [constructor] = compiler.getClassLoader().loadClass(_CLASS).getConstructors()
    return constructor.newInstance(arguments)
