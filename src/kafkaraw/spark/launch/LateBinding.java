package kafkaraw;

import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Gives each batch relation of a format one fresh scan for each query, see late_binding.py.
 *
 * Janino compiles this on the driver: no generic types, no lambdas. Nothing of it may be serialized to executors, which do
 * not have these classes.
 */
public final class LateBinding extends org.apache.spark.sql.catalyst.rules.Rule {
    private final String format;
    private final java.lang.reflect.Field source;

    public LateBinding(String format) throws Exception {
        this.format = format;
        this.source = PythonTable.class.getDeclaredField("ds");
        this.source.setAccessible(true);
    }

    /** An optimizer that fails would fail every query of the session: a scan that is not fresh is the lesser evil. */
    public TreeNode apply(TreeNode plan) {
        try {
            return this.bound((QueryPlan) plan);
        } catch (RuntimeException error) {
            this.log().warn("a batch read of " + this.format + " may give the rows of an earlier query", error);
        } catch (LinkageError error) {
            this.log().warn("a batch read of " + this.format + " may give the rows of an earlier query", error);
        }
        return plan;
    }

    /**
     * Spark optimizes subqueries before the plan around them, and a plan several times: a relation that has a fresh scan
     * anywhere in the plan gets the same one everywhere.
     */
    private TreeNode bound(QueryPlan plan) {
        java.util.Map scans = new java.util.IdentityHashMap();
        plan.foreachWithSubqueries(new Find(this, scans));
        return scans.isEmpty() ? plan : plan.transformWithSubqueries(new Replace(this, scans));
    }

    /**
     * The same rows in a plan of its own if the plan of a DataFrame was bound already, else the DataFrame itself: Spark
     * keeps the plan with the DataFrame and runs it again.
     */
    public Dataset renewed(Dataset frame) {
        QueryExecution query = frame.queryExecution();
        FindPlanned found = new FindPlanned();
        query.optimizedPlan().foreachWithSubqueries(found);
        return found.isPlanned ? Dataset.ofRows((SparkSession) frame.sparkSession(), query.commandExecuted()) : frame;
    }

    /** What a batch relation of the format reads from; null for another node. */
    PythonDataSourceV2 sourceOf(Object node) {
        if (!(node instanceof DataSourceV2ScanRelation)) {
            return null;
        }
        Table table = ((DataSourceV2ScanRelation) node).relation().table();
        if (!(table instanceof PythonTable) || !this.format.equalsIgnoreCase(table.name())) {
            return null;
        }
        try {
            return (PythonDataSourceV2) this.source.get(table);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Puts one scan for each source into a map. */
    static final class Find extends scala.runtime.AbstractFunction1 {
        private final LateBinding rule;
        private final java.util.Map scans;

        Find(LateBinding rule, java.util.Map scans) {
            this.rule = rule;
            this.scans = scans;
        }

        public Object apply(Object node) {
            PythonDataSourceV2 source = this.rule.sourceOf(node);
            if (source != null) {
                DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
                if (relation.scan() instanceof BoundScan) {
                    this.scans.put(source, relation.scan());
                } else if (!this.scans.containsKey(source)) {
                    this.scans.put(source, new BoundScan(fresh(relation, source)));
                }
            }
            return scala.runtime.BoxedUnit.UNIT;
        }

        private static Scan fresh(DataSourceV2ScanRelation relation, PythonDataSourceV2 source) {
            Table table = relation.relation().table();
            PythonTable fresh = new PythonTable(new FreshSource(source), table.name(), table.schema());
            return fresh.newScanBuilder(relation.relation().options()).build();
        }
    }

    /** Finds out whether a plan has a scan whose partitions are planned. */
    static final class FindPlanned extends scala.runtime.AbstractFunction1 {
        boolean isPlanned;

        public Object apply(Object node) {
            if (node instanceof DataSourceV2ScanRelation) {
                Scan scan = ((DataSourceV2ScanRelation) node).scan();
                this.isPlanned |= scan instanceof BoundScan && ((BoundScan) scan).isPlanned();
            }
            return scala.runtime.BoxedUnit.UNIT;
        }
    }

    /** Puts the scans of the map in place. */
    static final class Replace extends scala.runtime.AbstractPartialFunction {
        private final LateBinding rule;
        private final java.util.Map scans;

        Replace(LateBinding rule, java.util.Map scans) {
            this.rule = rule;
            this.scans = scans;
        }

        public boolean isDefinedAt(Object node) {
            PythonDataSourceV2 source = this.rule.sourceOf(node);
            return source != null && ((DataSourceV2ScanRelation) node).scan() != this.scans.get(source);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!this.isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            // By position: which arguments there are, apart from the scan, differs between versions of Spark.
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
            Object[] arguments = new Object[relation.productArity()];
            for (int index = 0; index < arguments.length; index++) {
                Object argument = relation.productElement(index);
                arguments[index] = argument == relation.scan() ? this.scans.get(this.rule.sourceOf(node)) : argument;
            }
            return relation.makeCopy(arguments);
        }
    }

    /** The source of a relation, without the partitions that it remembers. */
    static final class FreshSource extends PythonDataSourceV2 {
        private final PythonDataSourceV2 original;

        FreshSource(PythonDataSourceV2 original) {
            this.original = original;
        }

        public UserDefinedPythonDataSource source() {
            return this.original.source();
        }

        public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
                String name, CaseInsensitiveStringMap options, scala.Option schema) {
            return this.original.getOrCreateDataSourceInPython(name, options, schema);
        }
    }

    /** A scan that plans its partitions once, for all that use it. */
    static final class BoundScan implements Scan {
        private final Scan scan;
        private Batch batch;

        BoundScan(Scan scan) {
            this.scan = scan;
        }

        public synchronized Batch toBatch() {
            if (this.batch == null) {
                this.batch = this.scan.toBatch();
            }
            return this.batch;
        }

        synchronized boolean isPlanned() {
            return this.batch != null;
        }

        public org.apache.spark.sql.types.StructType readSchema() {
            return this.scan.readSchema();
        }

        public String description() {
            return this.scan.description();
        }

        public org.apache.spark.sql.connector.metric.CustomMetric[] supportedCustomMetrics() {
            return this.scan.supportedCustomMetrics();
        }

        public org.apache.spark.sql.connector.metric.CustomTaskMetric[] reportDriverMetrics() {
            return this.scan.reportDriverMetrics();
        }

        public Scan.ColumnarSupportMode columnarSupportMode() {
            return this.scan.columnarSupportMode();
        }
    }
}
