"""Five complete pipelines on real data; one folder each. Run one: `python -m examples.flights`.

In each folder `transformations/` is the pipeline, and `__main__.py` starts a broker, produces the data, runs the
pipeline, compares its result with one that plain Python has computed, and draws a picture. `harness.py` is what all
five share. Start reading at `flights/transformations/flights.py`.
"""
