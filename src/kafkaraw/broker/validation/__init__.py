"""What a producer's batch must be to be appended, and the form in which it is. Start at `stored_form.validated`.

`frames` finds the one batch in a request's bytes, `batch_checks` judges its header, `record_checks` its records, where
those matter, with `inner_records` to tell what is wrong with them. Nothing here knows a log or a partition.
Source: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""
