"""Every setting of a registry client, declared once, and the other names that the settings have elsewhere.

`RegistryConfig` is the table. `settings_from_names` translates a dict written for confluent-kafka's
`SchemaRegistryClient`, properties of the Java serializers (`schema.registry.url` and so on), and our own names. Must
not open connections or read files; the client does that with `client_context`. Start at `RegistryConfig`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from kafkaraw.client.credentials.oidc import url_fault
from kafkaraw.client.settings import build, setting, settings_of, unknown_name
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    import ssl

_DAY_MS: Final = 24 * 3600 * 1000
URLS_MAX: Final = 32


class BasicAuth(NamedTuple):
    """User name and password."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"BasicAuth(username={self.username!r}, password=[hidden])"


def _urls(value: object) -> object:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError('must be a URL such as "http://localhost:8081", or a list of URLs')
    urls = tuple(dict.fromkeys(_checked_url(part.strip()) for part in parts if part.strip()))
    if not urls:
        raise ValueError('names no registry; give its URL, such as "http://localhost:8081"')
    if len(urls) > URLS_MAX:
        raise ValueError(f"at most {URLS_MAX} URLs")
    return urls


def _checked_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{_without_user(text)!r} is no URL: {error}") from None
    if parts.scheme == "mock":
        raise ValueError(
            "mock:// exists in confluent-kafka only; kafkaraw.schemas.EmbeddedRegistry is a registry for tests"
        )
    if parts.scheme not in ("http", "https") or not host:
        shown = _without_user(text)
        raise ValueError(
            f"{shown!r} must begin with http:// or https:// and name a host; did you mean 'http://{shown}'?"
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{_without_user(text)!r}: a registry's URL has no '?' and no '#'")
    return text.rstrip("/")


def _without_user(text: str) -> str:
    return text.rpartition("@")[2]


def _basic_auth(value: object) -> object:
    if value is None:
        return None
    parts = tuple(value.split(":", 1)) if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and len(parts) == 2 and all(isinstance(part, str) for part in parts):
        if ":" in parts[0]:
            raise ValueError("a user name cannot contain ':'")
        return BasicAuth(parts[0], parts[1])
    raise ValueError('must be ("user", "password"), or "user:password"')


def _token(value: object) -> object:
    if value is None or callable(value):
        return value
    if isinstance(value, str) and value and value.isascii() and value.isprintable() and " " not in value:
        return value
    raise ValueError("must be a token: printable ASCII text without spaces, or a function that returns one")


def _names(value: object) -> object:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError('must be a list of texts, or "one,two"')
    return tuple(part.strip() for part in parts if part.strip())


def _headers(value: object) -> object:
    pairs = tuple(value.items()) if isinstance(value, Mapping) else value
    if isinstance(pairs, tuple) and all(_is_header(name, text) for name, text in pairs):
        return tuple((name.lower(), text) for name, text in pairs)
    raise ValueError("must be a mapping of header names to values, both printable ASCII text")


def _is_header(name: object, text: object) -> bool:
    return all(isinstance(part, str) and part.isascii() and part.isprintable() for part in (name, text)) and bool(name)


def _context(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, str) or ":" in value or not value.strip(".") or not value.isprintable():
        raise ValueError("must be the name of a context, such as 'staging', without colons")
    return value if value.startswith(".") else f".{value}"


def _tls_context(value: object) -> object:
    if value is not None and not hasattr(value, "wrap_bio"):
        raise ValueError("must be an ssl.SSLContext")
    return value


@dataclass(frozen=True, kw_only=True)
class RegistryConfig:
    """Settings of `Registry` and `AsyncRegistry`."""

    url: tuple[str, ...] = setting(
        (),
        "URL of the registry, or several URLs of one registry: if one does not answer, the client asks the next one.",
        convert=_urls,
        accepts="str | Sequence[str]",
        secret=True,  # it may have a password inside
    )
    context: str | None = setting(
        None, "Context of subjects that name none (`:.context:subject`), and of ids.", convert=_context
    )
    basic_auth: BasicAuth | None = setting(
        None,
        'User name and password: ("user", "password"), or "user:password".',
        convert=_basic_auth,
        accepts="str | tuple[str, str] | None",
        secret=True,
    )
    bearer_token: str | Callable[[], str | Awaitable[str]] | None = setting(
        None, "A bearer token, or a function that returns one; called for each request.", convert=_token, secret=True
    )
    bearer_logical_cluster: str | None = setting(
        None, "Logical cluster of the registry, sent as `target-sr-cluster` with bearer tokens (Confluent Cloud)."
    )
    bearer_identity_pool: str | None = setting(
        None, "Identity pool, sent as `Confluent-Identity-Pool-Id` with bearer tokens (Confluent Cloud)."
    )
    oauth_token_endpoint_url: str | None = setting(
        None, "Token endpoint of OAuth's client credentials grant; https, or http on this machine."
    )
    oauth_client_id: str | None = setting(None, "Client id for the token endpoint.")
    oauth_client_secret: str | None = setting(None, "Client secret for the token endpoint.", secret=True)
    oauth_scope: str | None = setting(None, "Scope to request from the token endpoint.")
    oauth_allowed_urls: tuple[str, ...] = setting(
        (),
        "Allowed token endpoints; if empty, any https URL is allowed.",
        convert=_names,
        accepts="str | Sequence[str]",
    )
    oauth_cafile: str | None = setting(
        None, "CA certificates for the token endpoint: a PEM file, or PEM text; by default those of the system."
    )
    ssl_cafile: str | None = setting(
        None, "CA certificates to trust: a PEM file, or PEM text; by default those of the system."
    )
    ssl_certfile: str | None = setting(None, "This client's certificate chain: a PEM file, or PEM text.", secret=True)
    ssl_keyfile: str | None = setting(None, "Its private key: a PEM file, or PEM text.", secret=True)
    ssl_password: str | None = setting(None, "Password of the private key.", secret=True)
    ssl_check_hostname: bool = setting(
        True, "Require that the registry's certificate is valid for the host name of the URL."
    )
    ssl_context: ssl.SSLContext | None = setting(
        None, "TLS context of your own, instead of the other ssl_ settings.", convert=_tls_context
    )
    headers: tuple[tuple[str, str], ...] = setting(
        (),
        "More headers of each request, such as those that a gateway wants.",
        convert=_headers,
        accepts="Mapping[str, str] | tuple[tuple[str, str], ...]",
        secret=True,
    )
    request_timeout_ms: int = setting(
        10_000, "Maximum time of one attempt at one URL.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    default_api_timeout_ms: int = setting(
        30_000, "Deadline of a call, with all attempts, pauses and tokens.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    retries: int = setting(
        5,
        "How often a call tries all URLs again if none of them answers, within its deadline.",
        minimum=0,
        maximum=1000,
    )
    retry_backoff_ms: int = setting(
        200, "Pause before the first retry; doubles each time.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    retry_backoff_max_ms: int = setting(5_000, "Maximum pause between retries.", unit="ms", minimum=1, maximum=_DAY_MS)
    cache_size_max: int = setting(
        1_000, "Maximum number of schemas in each cache of the client.", minimum=1, maximum=1_000_000
    )
    latest_cache_ttl_ms: int = setting(
        300_000,
        "How long `cached_version` and serializers with use_latest_version use the latest version of a subject "
        "without asking again.",
        unit="ms",
        minimum=0,
        maximum=7 * _DAY_MS,
    )
    missing_cache_ttl_ms: int = setting(
        1_000,
        "How long the client uses the registry's answer that it has no schema with an id or GUID.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    missing_per_second_max: int = setting(
        100,
        "Maximum rate of look-ups of ids and GUIDs that the registry does not have: further look-ups wait. After a "
        "quiet time, ten times this number may come at once; 0 for no limit.",
        minimum=0,
        maximum=1_000_000,
    )
    answer_size_max: int = setting(
        33_554_432, "Maximum size of an answer; a larger one is an error.", unit="bytes", minimum=1_024
    )


_EITHER: Final = ("basic_auth", "bearer_token", "oauth_token_endpoint_url")


def config_from(given: Mapping[str, object], *, from_text: bool = False) -> RegistryConfig:
    """Check settings, and move a user name in a URL to `basic_auth`.

    Args:
        given: settings by name.
        from_text: values may be strings ("true", "500").

    Raises:
        ConfigError: a setting is unknown or wrong, or two of them contradict each other.
    """
    config = build(RegistryConfig, given, from_text=from_text)
    if not config.url:
        raise ConfigError("no registry given: url='http://localhost:8081'")
    config = _with_user_of_url(config)
    chosen = [name for name in _EITHER if getattr(config, name) is not None]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} exclude each other: choose one way to authenticate")
    if config.oauth_token_endpoint_url is not None:
        _check_oauth(config)
    elif config.oauth_client_id is not None or config.oauth_client_secret is not None:
        raise ConfigError("oauth_client_id and oauth_client_secret need oauth_token_endpoint_url")
    if config.ssl_certfile is None and (config.ssl_keyfile is not None or config.ssl_password is not None):
        raise ConfigError("ssl_keyfile and ssl_password need ssl_certfile, the certificate of the key")
    return config


def _check_oauth(config: RegistryConfig) -> None:
    if config.oauth_client_id is None or config.oauth_client_secret is None:
        raise ConfigError("oauth_token_endpoint_url needs oauth_client_id and oauth_client_secret")
    fault = url_fault(cast("str", config.oauth_token_endpoint_url), config.oauth_allowed_urls)
    if fault:
        fault = fault.replace("sasl_oauthbearer_allowed_urls", "oauth_allowed_urls")
        raise ConfigError(f"oauth_token_endpoint_url={config.oauth_token_endpoint_url!r}: {fault}")


def _with_user_of_url(config: RegistryConfig) -> RegistryConfig:
    users, urls = set(), []
    for url in config.url:
        parts = urlsplit(url)
        if parts.username is not None:
            users.add(BasicAuth(unquote(parts.username), unquote(parts.password or "")))
        urls.append(urlunsplit(parts._replace(netloc=_without_user(parts.netloc))))
    if not users:
        return config
    if len(users) > 1 or config.basic_auth is not None:
        raise ConfigError("the URLs and basic_auth have different user names: give basic_auth, and URLs without a user")
    return replace(config, url=tuple(urls), basic_auth=users.pop())


_OTHER_NAMES: Final = {
    # confluent-kafka's SchemaRegistryClient, and the Java client; both also with `schema.registry.` in front
    "basic.auth.user.info": "basic_auth",
    "basic.auth.credentials": "basic_auth",
    "bearer.auth.token": "bearer_token",
    "bearer.auth.logical.cluster": "bearer_logical_cluster",
    "bearer.auth.identity.pool.id": "bearer_identity_pool",
    "bearer.auth.client.id": "oauth_client_id",
    "bearer.auth.client.secret": "oauth_client_secret",
    "bearer.auth.scope": "oauth_scope",
    "bearer.auth.issuer.endpoint.url": "oauth_token_endpoint_url",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.keystore.password": "ssl_password",
    "ssl.keystore.certificate.chain": "ssl_certfile",
    "ssl.keystore.key": "ssl_keyfile",
    "ssl.truststore.certificates": "ssl_cafile",
    "max.retries": "retries",
    "retries.wait.ms": "retry_backoff_ms",
    "retries.max.wait.ms": "retry_backoff_max_ms",
    "cache.capacity": "cache_size_max",
    "max.schemas.per.subject": "cache_size_max",
}
_SECONDS: Final = {
    "timeout": "request_timeout_ms",
    "cache.latest.ttl.sec": "latest_cache_ttl_ms",
    "missing.id.cache.ttl.sec": "missing_cache_ttl_ms",
}
_SOURCES: Final = {
    "basic.auth.credentials.source": ("URL", "USER_INFO"),
    "bearer.auth.credentials.source": ("STATIC_TOKEN", "OAUTHBEARER", "CUSTOM"),
}
_PREFIX: Final = "schema.registry."


def settings_from_config(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of `Registry` for a dict with names of confluent-kafka, of Java, or ours; see there.

    Raises:
        ConfigError: a name is unknown or a value does not fit.
    """
    config = config_from(settings_from_names(given), from_text=True)
    return {name: getattr(config, name) for name in settings_of(RegistryConfig)}


def settings_from_names(given: Mapping[str, object]) -> dict[str, object]:
    """Translate names of confluent-kafka and of the Java client, which may begin with `schema.registry.`, to ours.

    Args:
        given: settings with names of any of the three.

    Raises:
        ConfigError: a name is unknown, or its value is nothing that this client does.
    """
    found: dict[str, object] = {}
    for full_name, value in given.items():
        name = full_name.removeprefix(_PREFIX)
        if name in _SOURCES:
            if value not in _SOURCES[name]:
                raise ConfigError(f"{full_name}={value!r}: must be one of {', '.join(_SOURCES[name])}")
        elif name in _SECONDS:
            found[_SECONDS[name]] = _milliseconds(full_name, value)
        else:
            found[_our_name(name, full_name)] = value
    return found


def _our_name(name: str, full_name: str) -> str:
    plain = name.replace(".", "_").replace("-", "_")
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    if plain in settings_of(RegistryConfig):
        return plain
    raise ConfigError(unknown_name(full_name, settings_of(RegistryConfig), {}))


def _milliseconds(name: str, value: object) -> int:
    try:
        return round(float(cast("str", value)) * 1000)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={value!r}: must be a number of seconds") from None
