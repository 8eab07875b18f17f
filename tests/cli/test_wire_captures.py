"""`kafkaraw wire read`, `sequence`, `diff`, `export` and `encode`, on the captures of the documentation.

They are of confluent-kafka with Apache Kafka 4.3 and with the embedded broker, recorded through a tap.
"""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.inspect.captures import CaptureReader
from kafkaraw.inspect.exchanges import Exchange
from kafkaraw.inspect.exporting import source_of
from tests.inspect.conversations import random_turns
from tests.inspect.packet_writing import packets_of, pcap

CAPTURES = Path(__file__).parents[2] / "docs" / "conversations"
JOIN, TRANSACTION, UNREACHABLE = (str(CAPTURES / f"{name}.pcapng") for name in ("join", "transaction", "unreachable"))


def wire(*arguments: str, given: bytes = b"", code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["wire", *arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def test_read_prints_a_line_for_each_exchange_and_the_totals():
    result = wire("read", TRANSACTION)
    lines = result.stdout.splitlines()
    assert [line.split()[3] for line in lines[:3]] == ["ApiVersions", "Metadata", "ApiVersions"]
    assert "INVALID_PRODUCER_EPOCH" in lines[-1]
    assert f"{len(lines)} exchanges" in result.stderr


def test_read_filters_shows_fields_and_prints_json():
    shown = wire("read", TRANSACTION, "--api", "InitProducerId", "--client-id", "shop-restarted", "-v").stdout
    assert "transactional_id = 'orders-tx'" in shown
    (line,) = wire("read", TRANSACTION, "--api", "EndTxn", "--errors", "-o", "json").stdout.splitlines() or ["{}"]
    assert json.loads(line) == {}
    lines = wire("read", TRANSACTION, "--api", "EndTxn", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["transactional_ids"] for line in lines] == [["orders-tx"]] * len(lines)
    assert wire("read", TRANSACTION, "-q").stdout.splitlines()[0].split()[:2] == ["CLIENT", "API"]


def test_read_takes_a_pipe_and_names_what_is_missing():
    packets = packets_of(random_turns(1, 8), segment_size=100)
    lost = [packet for packet in packets if packet.payload][3]
    packets.remove(lost)
    result = wire("read", "-", "-o", "json", given=pcap(packets[2:]))
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    lacks = [words for one in documents for words in one.get("lacks", [])]
    assert lacks or any(one["kind"] == "remark" for one in documents)
    assert f"{len(lost.payload)} bytes of Kafka's connections are not in the capture" in result.stderr


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"0000", "this is no pcap or pcapng file"),
        (pcap([]), "no connection speaks Kafka"),
        (pcap(packets_of([(True, bytes.fromhex("16030100c8")), (False, b"\x16\x03\x01")])), "encrypted with TLS"),
        (pcap(packets_of(random_turns(1, 3)))[:-7], "the file ends within a packet"),
    ],
    ids=["no capture", "empty", "TLS", "cut"],
)
def test_read_says_why_there_is_nothing_to_read(data: bytes, says: str):
    assert says in wire("read", "-", given=data, code=1).stderr


def test_sequence_follows_a_transaction_to_its_end():
    shown = wire("sequence", TRANSACTION, "--client-id", "shop", "--client-id", "shop-restarted").stdout
    states = [line.partition("* ")[2] for line in shown.splitlines() if "* transactional id" in line]
    expected = "EMPTY ONGOING PREPARE_COMMIT COMPLETE_COMMIT ONGOING PREPARE_ABORT COMPLETE_ABORT EMPTY fenced"
    assert [line.partition(" (")[0].split()[-1] for line in states] == expected.split()


def test_sequence_follows_a_rebalance():
    shown = wire("sequence", JOIN, "--group", "billing").stdout
    of_group = [line for line in shown.splitlines() if "* group billing" in line]
    after = [line.partition(" (")[0].split()[-1] for line in of_group]
    assert after[:6] == ["PreparingRebalance", "CompletingRebalance", "Stable"] * 2
    assert "STABLE → PREPARING_REBALANCE (a rebalance has begun)" in shown
    assert shown.count("→ left") == 2


def test_sequence_draws_a_picture(tmp_path: Path):
    picture = tmp_path / "join.svg"
    wire("sequence", JOIN, "--svg", str(picture))
    texts = [element.text or "" for element in ElementTree.parse(picture).iter() if element.tag.endswith("text")]
    assert "billing-1 127.0.0.1" in texts
    assert any(text.startswith("JoinGroup v") for text in texts)


def test_diff_names_apis_order_and_fields():
    shown = wire("diff", TRANSACTION, UNREACHABLE, code=1).stdout
    assert "- EndTxn" in shown
    assert "Order:" in shown
    document = json.loads(wire("diff", TRANSACTION, UNREACHABLE, "-o", "json", code=1).stdout)
    assert document["apis"]["EndTxn"]["second"] is None
    assert {"api": "Metadata", "path": "header.client_id", "first": "shop", "second": "app"} in document["fields"]
    assert wire("diff", TRANSACTION, TRANSACTION).stdout == "Both ask the same, in the same order.\n"


def run_exported(source: str, change: Any = None) -> None:
    """Run the test that `export` writes, here."""
    names: dict[str, Any] = {}
    exec(compile(source, "exported", "exec"), names)
    if change is not None:
        names["CONVERSATION"] = change(names["CONVERSATION"])
    with EmbeddedBroker() as broker:
        names["test_orders"](broker)


def exchanges_of_shop() -> list[Exchange]:
    """The first transaction, with as little waiting as there is."""
    with open(TRANSACTION, "rb") as file:
        found = [item for item in CaptureReader(io.BytesIO(file.read())).read() if isinstance(item, Exchange)]
    apis = [one.api.name if one.api else "" for one in found]
    begun = [one for one in found[: apis.index("EndTxn") + 1] if not one.errors]
    return begun


def test_export_writes_a_test_that_the_embedded_broker_passes():
    written = wire("export", TRANSACTION, "-", "--client-id", "shop", "--name", "orders").stdout
    assert "def test_orders(kafka_broker: EmbeddedBroker) -> None:" in written
    run_exported(source_of(exchanges_of_shop(), title="Orders.", name="orders"))


def test_an_exported_test_fails_if_an_answer_differs():
    def changed(turns: list[Any]) -> list[Any]:
        at = max(number for number, turn in enumerate(turns) if not turn.from_client)
        return [*turns[:at], turns[at]._replace(frame=turns[at].frame[:-2] + "01"), *turns[at + 1 :]]

    with pytest.raises(AssertionError, match=r"EndTxn v1, connection \d+: error_code: 1 in the capture, 0 now"):
        run_exported(source_of(exchanges_of_shop(), title="Orders.", name="orders"), changed)


def test_export_refuses_what_it_cannot_replay():
    assert "the name of a test" in wire("export", TRANSACTION, "-", "--name", "a-b", code=1).stderr
    assert "nothing to replay" in wire("export", TRANSACTION, "-", "--topic", "none", code=1).stderr


def test_encode_is_the_inverse_of_decode():
    frame = random_turns(3, 1)[0][1]
    tree = wire("decode", "--json", given=frame).stdout
    assert wire("encode", "-o", "raw", given=tree.encode()).stdout_bytes == frame
    assert wire("encode", given=f"[{tree}, {tree}]".encode()).stdout == f"{frame.hex()}\n" * 2
    assert "this is no JSON" in wire("encode", given=b"{", code=1).stderr
