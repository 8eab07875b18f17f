"""Validation of a producer's batch, and its conversion to the stored form. Start at `stored_form.validated`.

`frames` finds the batch in a request's bytes, `batch_checks` checks its header, and `record_checks` its records, if the
topic's settings require it; `inner_records` finds the invalid records. This package does not know logs or partitions.
Source: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""
