"""The registry of handlers: a file makes the broker serve its API, and the first request of the API imports it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import textwrap
from types import ModuleType

import pytest

from kafkaraw.broker import handlers
from kafkaraw.broker.handlers.registration import REGISTERED, load_handlers, registration_of, served_apis
from kafkaraw.protocol.apis import API_BY_NAME


def test_each_handler_is_in_the_file_with_the_name_of_its_api():
    for file in pkgutil.iter_modules(handlers.__path__, f"{handlers.__name__}."):
        importlib.import_module(file.name)
    load_handlers()
    assert REGISTERED.keys() == served_apis().keys()
    for api in served_apis().values():
        assert API_BY_NAME[api.name].module == api.module


def test_a_file_without_a_handler_is_named(monkeypatch: pytest.MonkeyPatch):
    vote = API_BY_NAME["Vote"]
    module = f"{handlers.__name__}.{vote.module}"
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    with pytest.raises(ImportError, match=r"handlers\.vote registers no handler of Vote"):
        registration_of(vote)


def test_a_broker_imports_the_handlers_and_messages_of_the_requests_that_it_gets():
    code = """
        import json, sys
        from kafkaraw import Producer
        from kafkaraw.broker import EmbeddedBroker

        def loaded(package):
            return sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith(f"kafkaraw.{package}."))

        with EmbeddedBroker() as broker:
            before = loaded("broker.handlers")
            with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("flights", b"take-off").result()
            handlers = set(loaded("broker.handlers")) - set(before)
        print(json.dumps([sorted(handlers), loaded("protocol.messages"), loaded("broker.groups")]))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    imported, messages, groups = json.loads(ran.stdout)
    assert imported == ["init_producer_id", "leadership", "metadata", "produce", "produce_in_transaction"]
    assert set(messages) >= {"api_versions", "init_producer_id", "metadata", "produce"}
    assert not {"create_topics", "describe_configs", "join_group", "offset_commit"} & set(messages)
    assert groups == ["node"]
