"""Runs a pipeline: one Spark session, one driver, one streaming query for each flow."""
