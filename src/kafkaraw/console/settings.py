"""What the console shows, and who may see it. Must not connect to anything. Start at `ConsoleSettings`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from kafkaraw.console.providers import Faults, FoundMirrors, Mirror, PipelineState
from kafkaraw.errors import ConfigError

COLORS: Final = ("blue", "green", "purple", "orange", "teal", "pink", "brown", "red")
"""Of the stripes that tell clusters apart; red is for those that should make the reader careful."""
CLIENT_ID: Final = "kafkaraw-console"
OIDC_SCOPES: Final = ("openid", "profile", "email")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Check:
    """One address that was tried because a cluster does not answer.

    Attributes:
        place: what it is, and where.
        is_good: whether everything went well.
        text: what went well, or why it failed, and what to change.
    """

    place: str
    is_good: bool
    text: str


class Letters(Protocol):
    """The dead letters of one pipeline, as `kafkaraw pipelines dead-letters` has them."""

    def find(self, wanted: Any = ..., states: Any = ...) -> Sequence[Any]:  # noqa: ANN401 - the store's own classes
        """Return dead letters, in the order of the topic."""

    def replay(self, wanted: Any = ..., *, limit: int | None = ..., dry_run: bool = ...) -> Any:  # noqa: ANN401
        """Write open dead letters again."""

    def discard(self, wanted: Any, *, limit: int | None = ..., dry_run: bool = ...) -> Any:  # noqa: ANN401
        """Mark open dead letters as discarded."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline.

    Attributes:
        letters: the store of its dead letters.
        places: makes the store's filter for positions in the dead-letter topic; None for all.
        state: reads what it has noted in its storage.
    """

    letters: Letters
    places: Callable[[frozenset[tuple[int, int]] | None], Any]
    state: Callable[[], PipelineState] = PipelineState


ShareStates: TypeAlias = Callable[[Iterable[tuple[bytes, bytes | None]]], Mapping[tuple[str, str, int], Any]]


@dataclass(frozen=True)
class ClusterSettings:
    """A cluster.

    Attributes:
        name: in addresses and on pages: letters, digits, `.`, `_` and `-`.
        client: settings that all clients have, by our names.
        consumer: settings of consumers, by our names.
        color: one of `COLORS`.
        option: what selects this cluster on the command line, for commands that are copied, such as `-b HOST:PORT`.
        registry: settings of the schema registry's client; None if there is no registry.
        diagnose: finds out why the cluster does not answer; None if nothing does.
        pipelines: by name.
        mirrors: by the names of their files.
        found_mirrors: reads what mirrors have written: of an admin client, a maker of consumers, and names of topics.
        tap: makes a tap in front of the cluster, which is not started; None if there can be none.
        starts_tap: whether it is started with the console.
        faults: those of an embedded broker; None for other clusters.
        share_states: reads records of `__share_group_state`, and returns the stored states by group, topic id and
            partition; None if nothing does.
    """

    name: str
    client: Mapping[str, Any] = field(repr=False)
    consumer: Mapping[str, Any] = field(repr=False)
    color: str = COLORS[0]
    option: str = ""
    registry: Mapping[str, object] | None = field(default=None, repr=False)
    diagnose: Callable[[], Awaitable[Sequence[Check]]] | None = None
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict)
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    found_mirrors: Callable[[Any, Any, Sequence[str]], Awaitable[FoundMirrors]] | None = None
    tap: Callable[[], Any] | None = None
    starts_tap: bool = False
    faults: Faults | None = None
    share_states: ShareStates | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"cluster {self.name!r}: a name has 1 to 64 letters, digits, `.`, `_` and `-`")
        if self.color not in COLORS:
            raise ConfigError(f"cluster {self.name!r}: color {self.color!r} is none of {', '.join(COLORS)}")


@dataclass(frozen=True)
class OidcSettings:
    """The identity provider that logs users in, by OpenID Connect.

    Attributes:
        issuer: its address, exactly as it names itself.
        client_id: of the console, as registered there.
        client_secret: of the console; empty for a public client.
        users: who may use the console, by `user_claim`; `*` for everyone who can log in.
        groups: whose members may use it.
        user_claim: the claim that names the user; `sub` if the ID token lacks it.
        groups_claim: the claim that lists the user's groups.
        scopes: what is asked for.
    """

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    user_claim: str = "preferred_username"
    groups_claim: str = "groups"
    scopes: Sequence[str] = OIDC_SCOPES

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_local_name(parts.hostname or "")):
            raise ConfigError(f"--oidc-issuer {self.issuer}: an address with https:// is needed")
        if not self.client_id:
            raise ConfigError("--oidc-issuer needs --oidc-client, the id that the provider has given the console")
        if not self.users and not self.groups:
            raise ConfigError("--oidc-issuer: say who may use the console: --oidc-user NAME, --oidc-group NAME, or '*'")


@dataclass(frozen=True)
class ConsoleSettings:
    """The settings of a console.

    Attributes:
        clusters: what it shows.
        host: the address to listen on.
        port: the port to listen on; 0 for a free one.
        users: passwords by user name, for basic authentication.
        user_header: the request header in which a proxy names the user; None if there is no proxy.
        oidc: the identity provider that logs users in; None if there is none.
        public_url: the address under which browsers reach the console, such as that of a proxy with TLS.
        proxies: the addresses of the proxy, as networks; the header of others is not believed.
        allowed_hosts: more names under which browsers may ask for the console.
        allow_writes: whether anything can be changed.
        masks: names of fields of values, and of headers, whose contents are not shown.
        audit_file: each change is appended to this file; None logs it only.
    """

    clusters: Sequence[ClusterSettings]
    host: str = "127.0.0.1"
    port: int = 0
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    user_header: str | None = None
    proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()
    oidc: OidcSettings | None = None
    public_url: str = ""
    allowed_hosts: Sequence[str] = ()
    allow_writes: bool = False
    masks: frozenset[str] = frozenset()
    audit_file: Path | None = None

    def __post_init__(self) -> None:
        if not self.clusters:
            raise ConfigError("a console needs a cluster")
        names = [each.name for each in self.clusters]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"several clusters have the name {twice[0]!r}: give each its own")
        if not self.has_login and not self.is_local:
            raise ConfigError(
                f"--host {self.host}: other machines could read the cluster: give a --user, --user-header or "
                "--oidc-issuer, or listen on 127.0.0.1"
            )
        if self.oidc is not None and (self.users or self.user_header is not None):
            raise ConfigError("--oidc-issuer does not go with --user and --user-header: choose one kind of login")
        if self.oidc is not None and not self.is_local and not self.public_url:
            raise ConfigError("--oidc-issuer with another --host needs --public-url, to which the provider sends users")
        if self.user_header is not None and not self.proxies:
            raise ConfigError("--user-header: anyone could send it: name the addresses of the proxy with --proxy")

    @property
    def has_login(self) -> bool:
        """Whether the console asks who is there."""
        return bool(self.users) or self.user_header is not None or self.oidc is not None

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine reach the console."""
        return is_local_name(self.host)


def is_local_name(host: str) -> bool:
    """Return whether a host is this machine, and only reached from it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
