"""The tables of a shop's PostgreSQL database, rebuilt from the log of its changes."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp

spark = SparkSession.active()

CUSTOMER = "id INT, name STRING, city STRING"
PURCHASE = "id INT, customer INT, amount DECIMAL(10,2), state STRING, at TIMESTAMP"

# Two compacted topics with Debezium envelopes; the key of a record is the primary key of its row.
kp.apply_debezium(target="customers", topic="shop.public.customers", keys=["id"], schema=CUSTOMER)
kp.apply_debezium(target="purchases", topic="shop.public.purchases", keys=["id"], schema=PURCHASE)


@dp.table
@kp.expect("amounts are not negative", "amount >= 0")
def purchase_changes():
    """Every change as a row: an audit log, from the same topic."""
    changes = kp.debezium("shop.public.purchases", schema=PURCHASE)
    return changes.select("_op", "_sequence", "id", "customer", "amount", "state", "at")


@dp.materialized_view
def revenue_by_city():
    """What the customers of each city have paid."""
    paid = (
        spark.read.table("purchases")
        .where("state = 'paid'")
        .join(spark.read.table("customers").withColumnRenamed("id", "customer"), "customer")
    )
    return paid.groupBy("city").agg(F.sum("amount").alias("revenue"), F.count("*").alias("purchases"))
