"""Pipelines: declared in one folder, checked, and run by one driver with a streaming query for each flow."""
