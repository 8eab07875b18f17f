"""Dead letters: records that a pipeline could not use, in a topic, and their replay.

`flows.py` makes the streaming queries that write them; `letters.py` of the package above is their form. Start there.
"""

from __future__ import annotations
