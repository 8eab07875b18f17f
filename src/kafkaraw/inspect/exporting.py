"""A conversation as the source of a pytest test, which sends its requests to a broker and compares the answers.

SASL is left out, and so are exchanges of which the capture lacks a part; a comment of the test says so. Topics that the
conversation finds are created before it. Pure. Start at `source_of`; `testing.replay` runs what it writes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.inspect.exchanges import Exchange, ExchangeKind
from kafkaraw.inspect.subjects import errors_of
from kafkaraw.light_classes import NamedTuple

SASL_KEYS: Final = frozenset({17, 36})
METADATA_KEY: Final = 3
HEX_WIDTH: Final = 104
HEAD: Final = '''"""{title}

Written by `kafkaraw wire export`. The embedded broker must give the answers of the capture, apart from addresses, times
and the ids that a broker assigns.
{remarks}"""

from __future__ import annotations

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.testing.replay import Turn, replay

TOPICS = {topics}

CONVERSATION = [
'''
TAIL: Final = """]


def test_{name}(kafka_broker: EmbeddedBroker) -> None:
    if TOPICS:
        with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, partitions) for name, partitions in TOPICS.items()])
    replay(CONVERSATION, kafka_broker.bootstrap_servers)
"""


class _Moment(NamedTuple):
    at_s: float
    order: int
    exchange: Exchange
    from_client: bool


def source_of(exchanges: Sequence[Exchange], *, title: str, name: str) -> str:
    """Return the source of a test.

    Args:
        exchanges: in any order, of any connections.
        title: first line of its docstring.
        name: of the test, without `test_`.

    Raises:
        UsageError: there is nothing to replay, or the name is no name of Python.
    """
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise UsageError(f"the name of a test has lower case letters, digits and underscores, not {name!r}")
    used = [one for one in exchanges if _is_whole(one)]
    if not used:
        raise UsageError("no exchange of the capture is whole, so there is nothing to replay")
    remarks = "".join(f"{words}\n" for words in _remarks(exchanges, used))
    head = HEAD.format(title=title, remarks=f"\n{remarks}" if remarks else "", topics=_topics_of(used))
    return head + "".join(_turns(used)) + TAIL.format(name=name)


def _is_whole(exchange: Exchange) -> bool:
    if exchange.kind is not ExchangeKind.REQUEST or exchange.api_key in SASL_KEYS or exchange.request is None:
        return False
    return not exchange.request.is_cut and exchange.request_body is not None and not exchange.problem


def _remarks(exchanges: Sequence[Exchange], used: Sequence[Exchange]) -> Iterator[str]:
    sasl = sum(one.api_key in SASL_KEYS or one.kind is ExchangeKind.TOKEN for one in exchanges)
    if sasl:
        yield f"{sasl} exchanges of SASL are left out: the broker of the test asks for no authentication."
    rest = len(exchanges) - len(used) - sasl
    if rest > 0:
        yield f"{rest} exchanges are left out: the capture does not have all of them, or they cannot be decoded."
    written = any(one.api is not None and one.api.name == "Produce" for one in used)
    read = any(one.api is not None and one.api.name == "Fetch" and one.response_bytes > 500 for one in used)
    if read and not written:
        yield "It reads records that it does not write: produce them before `replay`, or the test will miss them."


def _topics_of(exchanges: Sequence[Exchange]) -> dict[str, int]:
    """Return the topics that the first answer about them knows, with their numbers of partitions."""
    seen: dict[str, int] = {}
    for exchange in sorted(exchanges, key=lambda one: one.began_s):
        if exchange.api_key == METADATA_KEY and exchange.response_body is not None:
            for topic in getattr(exchange.response_body, "topics", ()):
                if topic.name and topic.name not in seen and not topic.is_internal:
                    seen[topic.name] = 0 if errors_of(topic) else len(topic.partitions)
    return {name: partitions for name, partitions in seen.items() if partitions}


def _turns(exchanges: Sequence[Exchange]) -> Iterator[str]:
    moments = []
    for number, one in enumerate(exchanges):
        assert one.request is not None
        moments.append(_Moment(one.request.began_s, 2 * number, one, True))
        if one.response is not None and not one.response.is_cut:
            moments.append(_Moment(one.response.ended_s, 2 * number + 1, one, False))
    moments.sort(key=lambda moment: moment[:2])
    begin_s = moments[0].at_s
    for moment in moments:
        exchange = moment.exchange
        frame = exchange.request if moment.from_client else exchange.response
        assert frame is not None
        kind = "request" if moment.from_client else "answer"
        yield f"    # {moment.at_s - begin_s:.3f} s: {exchange.name}, {kind}\n"
        lines = textwrap.wrap(bytes(frame.data).hex(), HEX_WIDTH)
        if len(lines) == 1:
            yield f'    Turn({exchange.connection.number}, {moment.from_client}, "{lines[0]}"),\n'
        else:
            body = "".join(f'        "{line}"\n' for line in lines)
            yield f"    Turn(\n        {exchange.connection.number},\n        {moment.from_client},\n{body}    ),\n"
