"""Dead letters: records that a pipeline could not use, in a topic, and their replay.

`letters.py` is the form of a dead letter, `flows.py` makes the streaming queries that write them, `store.py` lists,
replays and discards them with the client, without Spark. Start at `letters.py`.
"""

from __future__ import annotations
