"""`make bench-produce`: what sending costs, against other clients in the same run. Start at `rows.py`."""
