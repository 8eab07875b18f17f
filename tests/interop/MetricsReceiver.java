import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/** A metrics reporter of a broker that prints what clients push, decoded by OpenTelemetry's own classes. */
public class MetricsReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        try {
            ByteBuffer data = payload.data();
            for (ResourceMetrics resource : MetricsData.parseFrom(data).getResourceMetricsList())
                for (ScopeMetrics scope : resource.getScopeMetricsList())
                    for (Metric metric : scope.getMetricsList())
                        print(context.clientId(), payload, resource, metric);
        } catch (Exception error) {
            System.out.println("PUSHED\t" + error);
        }
    }

    private static void print(String clientId, ClientTelemetryPayload payload, ResourceMetrics resource, Metric metric) {
        String kind = !metric.hasSum() ? "gauge" : metric.getSum().getIsMonotonic() ? "counter" : "sum";
        if (metric.hasSum())
            kind += " " + metric.getSum().getAggregationTemporality();
        List<NumberDataPoint> points =
            metric.hasSum() ? metric.getSum().getDataPointsList() : metric.getGauge().getDataPointsList();
        for (NumberDataPoint point : points) {
            Map<String, String> attributes = new TreeMap<>();
            for (KeyValue each : resource.getResource().getAttributesList())
                attributes.put(each.getKey(), each.getValue().getStringValue());
            for (KeyValue each : point.getAttributesList())
                attributes.put(each.getKey(), each.getValue().getStringValue());
            long ms = (point.getTimeUnixNano() - point.getStartTimeUnixNano()) / 1000000;
            System.out.println(String.join("\t", "PUSHED", clientId, payload.clientInstanceId().toString(),
                String.valueOf(payload.isTerminating()), metric.getName(), kind, String.valueOf(point.getAsDouble()),
                String.valueOf(metric.hasSum() ? ms : -1), attributes.toString()));
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> configs) {}
}
