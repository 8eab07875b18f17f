"""Apache Kafka from the wire up: client, embedded broker, and a Spark data source that needs no JAR."""
