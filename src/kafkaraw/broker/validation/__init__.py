"""Validation of a producer's batch, and its conversion to the stored form. Start at `log_validator.validated`.

`frames` finds the batch in a request's bytes, `log_validator` checks its header and converts the batch, and
`record_checks` checks its records, if the topic's settings require that; `inner_records` reads them.
Source: kafka.log.UnifiedLog, org.apache.kafka.storage.internals.log.LogValidator.
"""
