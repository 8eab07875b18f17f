"""The registry client against a scripted HTTP server: failures, limits, credentials, caches."""

from __future__ import annotations

import asyncio
import base64
import inspect
import os
import signal
import threading
import time
import timeit

import pytest
import trustme

from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import ClosedError, ConfigError, UsageError
from kafkaraw.schemas import (
    AsyncRegistry,
    AvroSerializer,
    IncompatibleSchemaError,
    InvalidSchemaError,
    NotARegistryError,
    Registry,
    RegistryAuthenticationError,
    RegistryAuthorizationError,
    RegistryError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaReferenceError,
    SubjectNotFoundError,
    VersionNotFoundError,
)
from kafkaraw.schemas.cache import Cache
from kafkaraw.schemas.missing import MissingSchemas
from tests.cases import Cases
from tests.schemas.scripted_server import (
    HANGS_UP,
    HTML,
    OK_TYPES,
    SILENCE,
    Request,
    Script,
    ScriptedServer,
    answer,
    error,
    redirect,
)

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1}
SCHEMA = Schema('{"type":"string"}')
REGISTERED = {"subject": "s", "version": 3, "id": 7, "guid": "g-7", "schema": SCHEMA.text, "schemaType": "AVRO"}


def refused(server: ScriptedServer, kind: type[Exception], **settings: object) -> str:
    """The message of the error that listing subjects raises."""
    with Registry(server.url, **(QUICK | settings)) as registry, pytest.raises(kind) as raised:
        registry.subjects()
    assert type(raised.value) is kind
    return str(raised.value)


def test_an_error_code_of_the_registry_becomes_the_class_that_fits() -> None:
    cases = [
        (404, 40401, SubjectNotFoundError),
        (404, 40402, VersionNotFoundError),
        (404, 40403, SchemaNotFoundError),
        (404, 40404, SubjectNotFoundError),
        (404, 40406, VersionNotFoundError),
        (404, 40408, RegistryError),
        (409, 409, IncompatibleSchemaError),
        (409, 40901, IncompatibleSchemaError),
        (422, 42201, InvalidSchemaError),
        (422, 42205, RegistryError),
        (422, 42206, RegistryError),
        (401, 401, RegistryAuthenticationError),
        (403, 40301, RegistryAuthorizationError),
        (500, 50001, RegistryUnavailableError),
        (500, 50004, RegistryUnavailableError),
        (429, None, RegistryUnavailableError),
        (404, 404, NotARegistryError),
        (404, None, NotARegistryError),
    ]

    def check(case: tuple[int, int | None, type[RegistryError]]) -> None:
        status, code, kind = case
        with (
            ScriptedServer([error(status, code, "No such thing.")]) as server,
            Registry(server.url, retries=0) as registry,
        ):
            with pytest.raises(RegistryError) as raised:
                registry.versions("s")
            assert type(raised.value) is kind
            assert raised.value.status == status
            assert "subject 's'" in str(raised.value)
            if kind is not NotARegistryError:
                assert raised.value.error_code == code
                assert "No such thing." in str(raised.value)

    with Cases() as case:
        for each in cases:
            with case(str(each)):
                check(each)


def test_an_incompatible_schema_names_the_rules_and_the_paths() -> None:
    text = (
        'Schema being registered is incompatible with an earlier schema for subject "s", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field {x}', additionalInfo:'x'}, "
        "{oldSchemaVersion: 1}]; error code: 409"
    )
    with (
        ScriptedServer([error(409, 409, text)]) as server,
        Registry(server.url) as registry,
        pytest.raises(IncompatibleSchemaError) as raised,
    ):
        registry.register("s", SCHEMA)
    assert raised.value.messages == (
        "errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field {x}', additionalInfo:'x'",
        "oldSchemaVersion: 1",
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in str(raised.value)
    assert len(server.requests) == 1


def test_a_web_page_is_no_registry() -> None:
    with ScriptedServer([HTML]) as server:
        message = refused(server, NotARegistryError)
    assert "text/html: <html><title>Log in</title></html>" in message
    assert "with its path?" in message
    assert len(server.requests) == 1


def test_json_of_another_form_is_no_registry() -> None:
    cases = [{"subjects": []}, [1], None, "text", [["a"]]]

    def check(content: object) -> None:
        with ScriptedServer([answer(200, content)]) as server:
            assert "JSON of another form" in refused(server, NotARegistryError)

    with Cases() as case:
        for each in cases:
            with case(str(each)):
                check(each)


def test_deeply_nested_json_is_an_error() -> None:
    with ScriptedServer([answer(200, b"[" * 100_000)]) as server:
        refused(server, NotARegistryError)


def test_texts_of_the_registry_cannot_control_a_terminal() -> None:
    with ScriptedServer([error(422, 42201, "\x1b[2Jgone\n" + "x" * 5000)]) as server:
        message = refused(server, InvalidSchemaError)
    assert "\x1b" not in message
    assert "\n" not in message
    assert len(message) < 3000


def test_an_answer_that_exceeds_the_limit_ends_the_call() -> None:
    endless = Script([b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n", *[b"[" * 65536] * 100_000])
    with ScriptedServer([endless]) as server:
        message = refused(server, RegistryError, answer_size_max=1_000_000)
    assert "more than 1000000 bytes" in message


def test_a_compressed_answer_is_not_unpacked() -> None:
    with ScriptedServer([answer(200, b"\x1f\x8b" + b"0" * 50, headers=["content-encoding: gzip"])]) as server:
        refused(server, NotARegistryError)
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_a_registry_without_an_answer_ends_at_the_deadline() -> None:
    with ScriptedServer([SILENCE]) as server:
        began = time.monotonic()
        message = refused(server, RegistryTimeoutError, request_timeout_ms=100, default_api_timeout_ms=1000)
        assert time.monotonic() - began < 5
    assert "default_api_timeout_ms" in message
    assert len(server.requests) >= 2


def test_an_answer_that_trickles_ends_at_the_deadline() -> None:
    headers = Script([b"HTTP/1.1 200 X\r\n", *[b"x-%d: y\r\n" % number for number in range(200)]], pause_s=0.05)
    body = Script([b"HTTP/1.1 200 X\r\ncontent-length: 1000\r\n\r\n", *[b"["] * 200], pause_s=0.05)
    for script in (headers, body):
        with ScriptedServer([script]) as server:
            began = time.monotonic()
            refused(server, RegistryTimeoutError, request_timeout_ms=200, retries=0)
            assert time.monotonic() - began < 4


def test_a_half_answer_is_asked_for_again() -> None:
    half = Script([b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n[1,"], closes=True)
    with ScriptedServer([half, HANGS_UP, answer(200, ["a"])]) as server, Registry(server.url, **QUICK) as registry:
        assert registry.subjects() == ("a",)
    assert len(server.requests) == 3


def test_a_port_that_speaks_another_protocol_is_named() -> None:
    with ScriptedServer([Script([b"\x00\x00\x00\x1bSSH-2.0\r\n\r\n"], closes=True)]) as server:
        message = refused(server, RegistryUnavailableError, retries=1)
    assert "is this the port of a schema registry" in message
    assert "(2 attempts)" in message


def test_another_url_is_asked_when_one_fails_and_keeps_being_asked_first() -> None:
    with ScriptedServer([error(503, None, "down")]) as broken, ScriptedServer([answer(200, ["a"])]) as working:
        with Registry([broken.url, working.url], **QUICK) as registry:
            assert registry.subjects() == ("a",)
            assert registry.subjects() == ("a",)
        assert len(broken.requests) == 1
        assert len(working.requests) == 2


def test_a_registry_that_is_down_is_asked_again_with_growing_pauses_and_then_reported() -> None:
    with ScriptedServer([OK_TYPES]) as server:
        url = server.url
    with Registry(url, retries=3, **QUICK) as registry, pytest.raises(RegistryUnavailableError) as raised:
        registry.subjects()
    assert "Connection refused" in str(raised.value)
    assert "(4 attempts)" in str(raised.value)
    assert raised.value.url == url


def test_a_refusal_is_not_asked_for_again() -> None:
    with ScriptedServer([error(422, 42201, "bad")]) as server:
        refused(server, InvalidSchemaError)
    assert len(server.requests) == 1


# -- redirects and credentials


def test_a_redirect_to_another_host_is_refused_and_gets_no_credentials() -> None:
    with ScriptedServer([OK_TYPES]) as other:
        for status in (301, 302, 303, 307, 308):
            with ScriptedServer([redirect(status, f"http://127.0.0.1:{other.port}/subjects")]) as server:
                message = refused(server, NotARegistryError, basic_auth=("ada", "secret"))
                assert f"redirects to http://127.0.0.1:{other.port}/subjects" in message
                assert "secret" not in message
        assert other.requests == []
        assert other.connections_count == 0


def test_a_redirect_on_the_same_host_is_followed_and_not_forever() -> None:
    with ScriptedServer([redirect(301, "/v2/subjects"), answer(200, ["a"])]) as server:
        with Registry(server.url, basic_auth="ada:secret") as registry:
            assert registry.subjects("pre") == ("a",)
        assert server.targets == ["GET /subjects?subjectPrefix=pre", "GET /v2/subjects?subjectPrefix=pre"]
        assert server.requests[1].headers["authorization"] == server.requests[0].headers["authorization"]
    with ScriptedServer([redirect(301, "/subjects")]) as server:
        assert "more than 3 times" in refused(server, NotARegistryError)


def test_a_redirect_does_not_turn_a_change_into_a_query() -> None:
    with (
        ScriptedServer([redirect(302, "/elsewhere")]) as server,
        Registry(server.url) as registry,
        pytest.raises(NotARegistryError),
    ):
        registry.register("s", SCHEMA)
    assert len(server.requests) == 1


def test_basic_credentials_are_sent_from_the_setting_or_from_the_url() -> None:
    wanted = "Basic " + base64.b64encode("ada:pass:wörd".encode()).decode()
    with ScriptedServer([answer(200, [])]) as server:
        for url, settings in [
            (server.url, {"basic_auth": ("ada", "pass:wörd")}),
            (server.url.replace("//", "//ada:pass%3Aw%C3%B6rd@"), {}),
        ]:
            with Registry(url, **settings) as registry:
                registry.subjects()
            assert server.requests[-1].headers["authorization"] == wanted


def test_credentials_are_in_no_message_and_no_repr() -> None:
    with ScriptedServer([OK_TYPES]) as server:
        url = server.url
    with (
        Registry(url.replace("//", "//ada:hunter2@"), retries=0) as registry,
        pytest.raises(RegistryUnavailableError) as raised,
    ):
        registry.subjects()
    assert "hunter2" not in str(raised.value) + repr(raised.value.url) + repr(registry._async._config)
    with pytest.raises(ConfigError) as wrong:
        Registry("ftp://ada:hunter2@host")
    assert "hunter2" not in str(wrong.value)


def test_bearer_tokens_come_from_text_or_a_function() -> None:
    tokens = iter(["one", "two"])
    with ScriptedServer([answer(200, [])]) as server:
        with Registry(server.url, bearer_token="fixed", bearer_logical_cluster="lsrc-1") as registry:
            registry.subjects()
        with Registry(server.url, bearer_token=lambda: next(tokens)) as registry:
            registry.subjects()
            registry.subjects()
        with (
            Registry(server.url, bearer_token=lambda: "a\nb", retries=0) as registry,
            pytest.raises(RegistryAuthenticationError, match="characters that a header cannot have"),
        ):
            registry.subjects()
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer fixed", "Bearer one", "Bearer two"]
    assert server.requests[0].headers["target-sr-cluster"] == "lsrc-1"


def oauth(server: ScriptedServer) -> dict[str, object]:
    return {
        "oauth_token_endpoint_url": f"{server.url}/token",
        "oauth_client_id": "me",
        "oauth_client_secret": "hunter2",
        "oauth_scope": "registry",
    }


def test_oauth_tokens_are_fetched_once_and_again_after_a_refusal() -> None:
    def token(number: int) -> str:
        body = base64.urlsafe_b64encode(b'{"exp":%d,"sub":"me","iat":%d}' % (time.time() + 600, number)).decode()
        return f"e30.{body.rstrip('=')}.x"

    issued: list[str] = []

    def issue(request: Request) -> Script:
        assert b"grant_type=client_credentials" in request.body
        issued.append(token(len(issued)))
        return answer(200, {"access_token": issued[-1]})

    def serve(request: Request) -> Script:
        is_revoked = request.headers["authorization"] == f"Bearer {token_revoked}"
        return error(401, 401, "expired") if is_revoked else answer(200, ["a"])

    token_revoked = ""
    with (
        ScriptedServer(issue) as provider,
        ScriptedServer(serve) as server,
        Registry(server.url, **oauth(provider)) as registry,
    ):
        registry.subjects()
        registry.subjects()
        assert len(issued) == 1
        token_revoked = issued[0]
        assert registry.subjects() == ("a",)
    assert len(issued) == 2
    assert len(server.requests) == 4


def test_an_oauth_provider_that_refuses_is_an_authentication_error() -> None:
    with ScriptedServer([answer(401, {"error": "invalid_client"})]) as provider, ScriptedServer([HTML]) as server:
        message = refused(server, RegistryAuthenticationError, **oauth(provider))
    assert "invalid_client" in message
    assert "hunter2" not in message
    assert server.requests == []


def test_tls_needs_a_trusted_certificate_and_may_show_one() -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    mine = authority.issue_cert("me@example.org")
    pem = "".join(blob.bytes().decode() for blob in (mine.private_key_pem, *mine.cert_chain_pems))
    trusted = {"ssl_cafile": authority.cert_pem.bytes().decode()}
    with ScriptedServer([answer(200, ["a"])], tls=context) as server:
        assert "ssl_cafile" in refused(server, RegistryError)
        message = refused(server, RegistryUnavailableError, retries=0, **trusted)
        assert "is the registry running" in message or "client certificate" in message or "port" in message
        with Registry(server.url, ssl_certfile=pem, **trusted) as registry:
            assert registry.subjects() == ("a",)
    assert len(server.requests) == 1


# -- settings


def test_wrong_settings_are_named() -> None:
    cases: list[tuple[object, dict[str, object], str]] = [
        ("localhost:8081", {}, "did you mean 'http://localhost:8081'"),
        ("mock://x", {}, "EmbeddedRegistry"),
        ("http://a?b=c", {}, "no '\\?'"),
        ("http://h:99999", {}, "is no URL"),
        ((), {}, "names no registry"),
        ("http://a", {"basic_auht": "u:p"}, "did you mean 'basic_auth'"),
        ("http://a", {"basic_auth": "u:p", "bearer_token": "t"}, "exclude each other"),
        ("http://u:p@a", {"basic_auth": "v:q"}, "different user names"),
        ("http://a", {"oauth_token_endpoint_url": "https://b/t"}, "needs oauth_client_id"),
        (
            "http://a",
            {"oauth_token_endpoint_url": "http://b/t", "oauth_client_id": "c", "oauth_client_secret": "d"},
            "travel in the clear: use https, or list it in oauth_allowed_urls",
        ),
        ("http://a", {"ssl_keyfile": "k"}, "need ssl_certfile"),
        ("http://a", {"retries": -1}, "at least 0"),
        ("http://a", {"context": "a:b"}, "without colons"),
    ]

    def check(case: tuple[object, dict[str, object], str]) -> None:
        url, settings, wanted = case
        with pytest.raises(ConfigError, match=wanted):
            Registry(url, **settings)  # type: ignore[arg-type]

    with Cases() as case:
        for each in cases:
            with case(str(each)):
                check(each)


def test_names_of_confluent_kafka_and_java_are_accepted() -> None:
    given = {
        "schema.registry.url": "https://a:8081/,https://b:8081",
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "ada:secret",
        "schema.registry.ssl.ca.location": "ca.pem",
        "timeout": "2.5",
        "cache.latest.ttl.sec": 60,
        "max.retries": "7",
        "schema.registry.request-timeout-ms": "17",
    }
    config = Registry.from_config(
        {name: value for name, value in given.items() if "request" not in name}
    )._async._config
    assert config.url == ("https://a:8081", "https://b:8081")
    assert config.basic_auth == ("ada", "secret")
    assert config.ssl_cafile == "ca.pem"
    assert config.request_timeout_ms == 2500
    assert config.latest_cache_ttl_ms == 60_000
    assert config.retries == 7
    assert Registry.from_config({"url": "http://a", "request.timeout.ms": "17"})._async._config.request_timeout_ms == 17
    with pytest.raises(ConfigError, match="usr"):
        Registry.from_config({"url": "http://a", "basic.auth.usr.info": "x"})
    with pytest.raises(ConfigError, match="SASL_INHERIT"):
        Registry.from_config({"url": "http://a", "basic.auth.credentials.source": "SASL_INHERIT"})


# -- caches


def by_target(answers: dict[str, Script]) -> ScriptedServer:
    return ScriptedServer(lambda request: answers.get(request.target, error(404, 40401, f"no {request.target}")))


def test_answers_that_do_not_change_are_asked_for_once() -> None:
    answers = {
        "/schemas/ids/7": answer(200, REGISTERED),
        "/subjects/s/versions": answer(200, {"id": 7}),
        "/subjects/s/versions/3": answer(200, REGISTERED),
        "/subjects/s/versions/latest": answer(200, REGISTERED),
    }
    with by_target(answers) as server, Registry(server.url) as registry:
        assert registry.cached_by_id(7) is None
        for _ in range(3):
            assert registry.schema_by_id(7).schema == SCHEMA
            assert registry.register("s", SCHEMA).id == 7
            assert registry.lookup("s", SCHEMA).id == 7
            assert registry.version("s", 3).guid == "g-7"
            assert registry.schema_by_guid("g-7").id == 7
        found = registry.cached_by_id(7)
        assert found is not None
        assert found.guid == "g-7"
        assert registry.cached_registration("s", SCHEMA) == registry.register("s", SCHEMA)
        assert registry.cached_registration("s", SCHEMA, normalize=True) is None
        assert len(server.requests) == 3
        registry.version("s", "latest")
        registry.version("s")
        assert registry.cached_version("s", "latest") == registry.cached_version("s", 3)
    assert server.targets[3:] == ["GET /subjects/s/versions/latest"] * 2


def test_a_blocking_client_answers_from_its_cache_on_the_callers_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "/schemas/ids/7": answer(200, REGISTERED),
        "/subjects/s/versions": answer(200, {"id": 7}),
        "/subjects/s/versions/3": answer(200, REGISTERED),
    }
    with by_target(answers) as server, Registry(server.url) as registry:
        calls = [
            lambda: registry.schema_by_id(7),
            lambda: registry.schema_by_guid("g-7"),
            lambda: registry.register("s", SCHEMA),
            lambda: registry.lookup("s", SCHEMA),
            lambda: registry.version("s", 3),
            lambda: registry.bundle(SCHEMA),
        ]
        before = [call() for call in calls]
        with monkeypatch.context() as patch:
            patch.setattr(registry, "_run", None)
            assert [call() for call in calls] == before


def test_a_cached_latest_version_expires() -> None:
    with (
        by_target({"/subjects/s/versions/latest": answer(200, REGISTERED)}) as server,
        Registry(server.url, latest_cache_ttl_ms=0) as registry,
    ):
        registry.version("s")
        assert registry.cached_version("s", "latest") is None


def test_deleting_forgets_what_is_cached_of_the_subject() -> None:
    answers = {"/subjects/s/versions": answer(200, {"id": 7}), "/subjects/s": answer(200, [3])}
    with by_target(answers) as server, Registry(server.url) as registry:
        registry.register("s", SCHEMA)
        assert registry.delete_subject("s") == (3,)
        assert registry.cached_registration("s", SCHEMA) is None


def test_caches_are_bounded() -> None:
    cache: Cache[int, int] = Cache(3)
    for number in range(10):
        cache.put(number, number)
    assert len(cache) == 3
    assert [cache.get(number) for number in (6, 7, 8, 9)] == [None, 7, 8, 9]
    with (
        ScriptedServer(lambda request: answer(200, {"id": int(request.target[-1]), "schema": "x"})) as server,
        Registry(server.url, cache_size_max=2) as registry,
    ):
        for number in (1, 2, 3):
            registry.schema_by_id(number)
        assert registry.cached_by_id(1) is None
        assert registry.cached_by_id(3) is not None


def test_a_cached_look_up_takes_less_than_a_microsecond() -> None:
    with (
        by_target(
            {"/schemas/ids/7": answer(200, REGISTERED), "/subjects/s/versions": answer(200, {"id": 7})}
        ) as server,
        Registry(server.url) as registry,
    ):
        registry.schema_by_id(7)
        registry.register("s", SCHEMA)
        by_id = min(timeit.repeat(lambda: registry.schema_by_id(7), number=2_000, repeat=20)) / 2_000
        registration = min(timeit.repeat(lambda: registry.register("s", SCHEMA), number=2_000, repeat=20))
        assert len(server.requests) == 2
    assert by_id < 1e-6
    assert registration / 2_000 < 1e-6


def test_tasks_that_want_the_same_schema_share_one_request() -> None:
    async def ask(url: str) -> None:
        async with AsyncRegistry(url) as registry:
            found = await asyncio.gather(*(registry.schema_by_id(7) for _ in range(50)))
            assert {each.id for each in found} == {7}
            with pytest.raises(SubjectNotFoundError):
                await asyncio.gather(*(registry.register("other", SCHEMA) for _ in range(5)))

    with by_target({"/schemas/ids/7": answer(200, REGISTERED)}) as server:
        asyncio.run(ask(server.url))
    assert server.targets.count("GET /schemas/ids/7") == 1


def test_a_cancelled_task_does_not_cancel_the_others() -> None:
    async def ask(url: str) -> None:
        async with AsyncRegistry(url) as registry:
            first, second = (asyncio.create_task(registry.schema_by_id(7)) for _ in range(2))
            await asyncio.sleep(0.05)
            first.cancel()
            assert (await second).id == 7
            assert first.cancelled()

    slow = Script([b"", *answer(200, REGISTERED).pieces], pause_s=0.15)
    with ScriptedServer([slow]) as server:
        asyncio.run(ask(server.url))


# -- references


def referring(**subjects: list[tuple[str, int]]) -> ScriptedServer:
    """A registry whose subjects have one version each, with these references."""
    answers = {}
    for number, (subject, references) in enumerate(subjects.items()):
        listed = [{"name": f"{name}.{at}", "subject": name, "version": at} for name, at in references]
        found = {"subject": subject, "version": 1, "id": number, "schema": f'"{subject}"', "references": listed}
        answers[f"/subjects/{subject}/versions/1?deleted=true"] = answer(200, found)
    return by_target(answers)


def with_references(*subjects: str) -> Schema:
    return Schema("{}", references=tuple(SchemaReference(name, name, 1) for name in subjects))


def test_a_bundle_has_the_references_of_references_and_fetches_each_once() -> None:
    with referring(a=[("c", 1)], b=[("c", 1)], c=[]) as server, Registry(server.url) as registry:
        bundle = registry.bundle(with_references("a", "b"))
        assert bundle.references["a"].references["c.1"].schema.text == '"c"'
        assert bundle.references["a"].references["c.1"] is bundle.references["b"].references["c.1"]
        assert registry.bundle(with_references("a", "b")) is bundle
        assert registry.cached_bundle(with_references("a", "b")) is bundle
        assert len(server.requests) == 3
        assert registry.bundle(SCHEMA).references == {}


def test_references_in_a_circle_are_refused() -> None:
    with referring(a=[("b", 1)], b=[("a", 1)]) as server, Registry(server.url) as registry:
        with pytest.raises(SchemaReferenceError, match="a version 1 -> b version 1 -> a version 1"):
            registry.bundle(with_references("a"))
        assert len(server.requests) == 2


def test_references_without_end_are_refused() -> None:
    def deeper(request: Request) -> Script:
        number = int(request.target.split("/")[2])
        reference = {"name": "n", "subject": str(number + 1), "version": 1}
        return answer(200, {"version": 1, "id": 1, "schema": "{}", "references": [reference]})

    with (
        ScriptedServer(deeper) as server,
        Registry(server.url) as registry,
        pytest.raises(SchemaReferenceError, match="deeper than 32"),
    ):
        registry.bundle(with_references("0"))
    assert len(server.requests) == 32


def test_references_of_another_context_stay_in_it() -> None:
    found = {"version": 1, "id": 1, "schema": "{}"}
    with ScriptedServer([answer(200, found)]) as server, Registry(server.url) as registry:
        registry.bundle(with_references("a"), subject=":.other:s")
    assert server.targets == ["GET /subjects/%3A.other%3Aa/versions/1?deleted=true"]


# -- endpoints, contexts, faces


def test_a_context_of_the_client_qualifies_subjects_and_ids() -> None:
    answers = {
        "/subjects?subjectPrefix=%3A.staging%3A": answer(200, [":.staging:s"]),
        "/subjects/%3A.staging%3As/versions": answer(200, {"id": 7}),
        "/schemas/ids/7?subject=%3A.staging%3A": answer(200, REGISTERED | {"subject": ":.staging:s"}),
        "/config/%3A.staging%3A?defaultToGlobal=true": answer(200, {"compatibilityLevel": "FULL"}),
    }
    with by_target(answers) as server, Registry(server.url, context="staging") as registry:
        assert registry.subjects() == ("s",)
        assert registry.register("s", SCHEMA).subject == "s"
        assert registry.schema_by_id(7).subject == "s"
        assert registry.compatibility() == "FULL"
    assert len(server.requests) == 4


def test_subjects_with_any_characters_stay_one_part_of_the_path() -> None:
    with ScriptedServer([answer(200, [1])]) as server, Registry(server.url) as registry:
        registry.versions("a/b?c#d %../é")
        with pytest.raises(UsageError):
            registry.versions("")
        with pytest.raises(UsageError):
            registry.version("s", 0)
        with pytest.raises(UsageError):
            registry.version("s", "../config")
    assert server.targets == ["GET /subjects/a%2Fb%3Fc%23d%20%25..%2F%C3%A9/versions"]


def test_check_finds_a_wrong_url_among_several() -> None:
    with (
        ScriptedServer([OK_TYPES]) as right,
        ScriptedServer([HTML]) as wrong,
        Registry([right.url, wrong.url]) as registry,
        pytest.raises(NotARegistryError, match=str(wrong.port)),
    ):
        registry.check()


def test_check_accepts_that_one_of_several_registries_is_down(caplog: pytest.LogCaptureFixture) -> None:
    with (
        ScriptedServer([HANGS_UP]) as down,
        ScriptedServer([OK_TYPES]) as up,
        Registry([down.url, up.url], retries=0) as registry,
    ):
        registry.check()
    assert "one of 2 registry URLs does not answer" in caplog.text


def test_check_names_a_subject_that_is_similar() -> None:
    answers = {"/schemas/types": OK_TYPES, "/subjects": answer(200, ["orders-value", "x"])}
    with (
        by_target(answers) as server,
        Registry(server.url) as registry,
        pytest.raises(SubjectNotFoundError, match="did you mean 'orders-value'"),
    ):
        registry.check("order-value")


def test_check_finds_missing_permissions() -> None:
    def serve(request: Request) -> Script:
        return OK_TYPES if request.target == "/schemas/types" else error(403, 40301, "User is denied operation Read")

    with (
        ScriptedServer(serve) as server,
        Registry(server.url) as registry,
        pytest.raises(RegistryAuthorizationError, match="User is denied operation Read"),
    ):
        registry.check("s")


def test_a_closed_client_refuses_and_ends_calls_that_wait() -> None:
    async def close_while_waiting(url: str) -> None:
        registry = AsyncRegistry(url)
        waiting = asyncio.create_task(registry.schema_by_id(7))
        await asyncio.sleep(0.05)
        await registry.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            await registry.subjects()

    with ScriptedServer([SILENCE]) as server:
        asyncio.run(close_while_waiting(server.url))


def test_a_client_works_in_one_loop_after_the_other() -> None:
    async def ask() -> tuple[str, ...]:
        try:
            return await registry.subjects()
        finally:
            await registry._transport.close()  # type: ignore[union-attr]

    with ScriptedServer([answer(200, ["a"])]) as server:
        registry = AsyncRegistry(server.url)
        assert asyncio.run(ask()) == ("a",)
        assert asyncio.run(ask()) == ("a",)


def test_a_blocking_client_works_in_a_forked_child_and_in_the_parent() -> None:
    with ScriptedServer([answer(200, ["a"])]) as server, Registry(server.url) as registry:
        assert registry.subjects() == ("a",)
        child = os.fork()
        if child == 0:
            os._exit(0 if registry.subjects() == ("a",) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert registry.subjects() == ("a",)
        assert server.connections_count == 2


def public_methods(face: type) -> dict[str, object]:
    return {
        name: getattr(face, name)
        for name, value in vars(face).items()
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, classmethod))
    }


def test_both_faces_have_the_same_methods_arguments_results_and_documentation() -> None:
    blocking, asynchronous = public_methods(Registry), public_methods(AsyncRegistry)
    assert set(blocking) == set(asynchronous)
    for name, method in blocking.items():
        assert inspect.signature(method) == inspect.signature(asynchronous[name]), name  # type: ignore[arg-type]
        assert inspect.getdoc(method) == inspect.getdoc(asynchronous[name]), name
        assert inspect.getdoc(method), name


def test_the_same_error_can_be_pickled() -> None:
    import copy
    import pickle

    made = IncompatibleSchemaError("no", messages=["a"], status=409, error_code=40901, url="http://a")
    for twin in (pickle.loads(pickle.dumps(made)), copy.copy(made)):
        assert (str(twin), twin.messages, twin.status, twin.error_code, twin.url) == (
            "no", ("a",), 409, 40901, "http://a",
        )  # fmt: skip


def test_a_serializer_works_in_a_child_forked_while_another_thread_asks_the_registry() -> None:
    """The thread that holds the serializer's lock does not exist in the child."""
    asked, goes_on = threading.Event(), threading.Event()

    def script(request: Request) -> Script:
        if not asked.is_set():
            asked.set()
            goes_on.wait(20)
        return answer(200, {"id": 7})

    text = '{"type":"record","name":"R","fields":[]}'
    context = SerializationContext("t", "value", [])
    with ScriptedServer(script) as server, Registry(server.url) as registry:
        serialize = AvroSerializer(registry, text)
        thread = threading.Thread(target=serialize, args=({}, context))
        thread.start()
        assert asked.wait(20)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if serialize({}, context) == b"\0\0\0\0\7" else 1)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        goes_on.set()
        thread.join(20)
    assert ended == 0


def _nothing(_: Request) -> Script:
    return error(404, 40403, "Schema not found")


def test_an_id_that_does_not_exist_is_asked_for_once_within_its_time() -> None:
    known: set[str] = set()

    def answered(request: Request) -> Script:
        return answer(200, REGISTERED) if request.target in known else _nothing(request)

    with ScriptedServer(answered) as server, Registry(server.url, missing_cache_ttl_ms=300) as registry:
        for _ in range(5):
            for ask in (lambda: registry.schema_by_id(7), lambda: registry.schema_by_guid("g")):
                with pytest.raises(SchemaNotFoundError, match="Schema not found"):
                    ask()
        assert len(server.requests) == 2
        known.add("/schemas/ids/7")
        time.sleep(0.35)
        assert registry.schema_by_id(7).schema.text
        assert len(server.requests) == 3


def test_registering_forgets_which_ids_do_not_exist() -> None:
    def answered(request: Request) -> Script:
        if request.target.startswith("/subjects/"):
            return answer(200, {"id": 7})
        return answer(200, REGISTERED) if len(server.requests) > 2 else _nothing(request)

    with ScriptedServer(answered) as server, Registry(server.url, missing_cache_ttl_ms=60_000) as registry:
        with pytest.raises(SchemaNotFoundError):
            registry.schema_by_id(7)
        registry.register("s", SCHEMA)
        assert registry.schema_by_id(7).schema.text


def test_look_ups_in_vain_are_limited_and_an_id_that_exists_is_found_after_its_turn() -> None:
    def answered(request: Request) -> Script:
        return answer(200, REGISTERED) if request.target == "/schemas/ids/9999" else _nothing(request)

    with ScriptedServer(answered) as server, Registry(server.url, missing_per_second_max=10) as registry:
        began = time.monotonic()
        for number in range(110):
            with pytest.raises(SchemaNotFoundError):
                registry.schema_by_id(number)
        assert time.monotonic() - began >= 0.9  # 100 at once, and then 10 in a second
        assert registry.schema_by_id(9999).schema.text
        assert len(server.requests) == 111
        registry.schema_by_id(9999)
        assert len(server.requests) == 111


def test_a_look_up_whose_turn_would_come_after_its_deadline_can_be_retried() -> None:
    with ScriptedServer(_nothing) as server, Registry(server.url, missing_per_second_max=1) as registry:
        for number in range(1_000):
            registry._async._missing.add(number, SchemaNotFoundError("none"), time.monotonic())
        with pytest.raises(RegistryTimeoutError, match=r"look-ups wait \d+ s \(missing_per_second_max=1\)"):
            registry.schema_by_id(99_999)
        assert not server.requests


def test_the_limit_of_look_ups_may_be_off() -> None:
    missing = MissingSchemas(10, 1.0, 0)
    for number in range(10_000):
        missing.add(number, SchemaNotFoundError("none"), 5.0)
    assert missing.pause_s(5.0) == 0
    assert [missing.answer(number, 5.9) is None for number in (0, 9_999)] == [True, False]
    assert missing.answer(9_999, 6.0) is None


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_http_removes_from_paths_are_not_sent(name: str) -> None:
    with ScriptedServer(_nothing) as server, Registry(server.url) as registry:
        for ask in (
            lambda: registry.register(name, SCHEMA),
            lambda: registry.set_compatibility("NONE", name),
            lambda: registry.delete_subject(name),
            lambda: registry.schema_by_guid(name),
        ):
            with pytest.raises(UsageError, match="HTTP would remove it from the path"):
                ask()
        assert not server.requests
