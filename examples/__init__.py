"""Five complete pipelines on real data; one folder each. `python -m examples.flights` runs one, `make examples` all.

In each folder `transformations/` is the pipeline, and `__main__.py` starts a broker, produces the data, runs the
pipeline, compares its result with one that is computed without Spark, and draws a picture. The pipeline of the flights
is in the package, at `src/kafkaraw/demo/pipeline`. `harness.py` is what all five share. Start reading at
`commit_log/transformations/shop.py`.
"""
