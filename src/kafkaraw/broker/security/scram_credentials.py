"""SCRAM credentials, which clients set and remove (KIP-554); all nodes of a cluster share them.

Passwords given at the start of the broker apply to users without a stored credential. Only credentials that clients
set are stored on disk. Rules and messages are those of Kafka's ScramControlManager and ScramImage.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaraw.core.sasl.scram import (
    ITERATIONS_MIN,
    MECHANISM_OF_TYPE,
    TYPE_OF_MECHANISM,
    ScramCredential,
    credential_of,
    make_credential,
)
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkaraw.protocol.messages.alter_user_scram_credentials import (
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

SCRAM_FILE: Final = "kafkaraw-scram-credentials.json"
FORMAT_VERSION: Final = 1
ITERATIONS_MAX: Final = 16_384
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_NOT_THERE: Final = "Attempt to delete a user credential that does not exist"
_DUPLICATE: Final = (ErrorCode.DUPLICATE_RESOURCE, _TWICE)
_NOT_STORED: Final = "the credentials could not be stored"


_Problem: TypeAlias = tuple[ErrorCode, str]
"""The error of a change, and its message."""


class Outcome(NamedTuple):
    """The result of one user's change; every error has a message."""

    user: str
    code: ErrorCode
    message: str | None


class Description(NamedTuple):
    """The description of one user: iterations by mechanism, or an error."""

    user: str
    code: ErrorCode
    message: str | None
    iterations: Mapping[str, int]


class ScramCredentials:
    """The credentials of a cluster.

    Args:
        passwords: those given at the start, by user name.
        mechanisms: by which SCRAM mechanisms these may be used.
        new_salt: makes a fresh salt.
        save: writes the text of all stored credentials down; may raise OSError.
    """

    def __init__(
        self,
        passwords: Mapping[str, str],
        mechanisms: Iterable[str],
        new_salt: Callable[[], bytes],
        save: Callable[[str], None],
    ) -> None:
        self._passwords = {
            (mechanism, user): password
            for mechanism in mechanisms
            if mechanism in TYPE_OF_MECHANISM
            for user, password in passwords.items()
        }
        self._made: dict[tuple[str, str], ScramCredential] = {}
        self._stored: dict[tuple[str, str], ScramCredential] = {}
        self._new_salt = new_salt
        self._save = save

    def __repr__(self) -> str:
        return f"ScramCredentials({len(self._stored)} stored, {len(self._passwords)} given)"

    def find(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential of a user; None for a stranger."""
        key = (mechanism, user)
        if key in self._stored:
            return self._stored[key]
        if key not in self._made and key in self._passwords:
            self._made[key] = make_credential(mechanism, self._passwords[key], self._new_salt())
        return self._made.get(key)

    def alter(
        self, deletions: Iterable[ScramCredentialDeletion], upsertions: Iterable[ScramCredentialUpsertion]
    ) -> list[Outcome]:
        """Remove and set credentials, at most one for each user; those in error do not stop the others."""
        removed, added = list(deletions), list(upsertions)
        names = Counter([*(change.name for change in removed), *(change.name for change in added)])
        outcomes: dict[str, Outcome] = {}
        accepted: dict[tuple[str, str], ScramCredential | None] = {}

        def accepts(name: str, problem: _Problem | None) -> bool:
            problem = problem or (_DUPLICATE if names[name] > 1 else None)
            outcomes[name] = Outcome(name, *(problem or (ErrorCode.NONE, None)))
            return problem is None

        for deletion in removed:
            if deletion.name not in outcomes and accepts(deletion.name, self._problem_of_deletion(deletion)):
                accepted[MECHANISM_OF_TYPE[deletion.mechanism], deletion.name] = None
        for upsertion in added:
            if upsertion.name not in outcomes and accepts(upsertion.name, _problem_of_upsertion(upsertion)):
                accepted[MECHANISM_OF_TYPE[upsertion.mechanism], upsertion.name] = _new_credential(upsertion)
        if accepted and not self._apply(accepted):
            for _, user in accepted:
                outcomes[user] = Outcome(user, ErrorCode.KAFKA_STORAGE_ERROR, _NOT_STORED)
        return list(outcomes.values())

    def _problem_of_deletion(self, change: ScramCredentialDeletion) -> _Problem | None:
        problem = _problem_of(change)
        if problem is None and (MECHANISM_OF_TYPE[change.mechanism], change.name) not in self._known():
            return ErrorCode.RESOURCE_NOT_FOUND, _NOT_THERE
        return problem

    def _apply(self, changes: Mapping[tuple[str, str], ScramCredential | None]) -> bool:
        stored = {**self._stored, **{key: made for key, made in changes.items() if made is not None}}
        for key, made in changes.items():
            if made is None:
                stored.pop(key, None)
        try:
            self._save(credentials_text(stored))
        except OSError:
            return False
        self._stored = stored
        for key in changes:
            self._passwords.pop(key, None)
            self._made.pop(key, None)
        return True

    def describe(self, users: Iterable[str] | None) -> list[Description]:
        """Describe the credentials of users; None or an empty list describes all users."""
        known = self._known()
        wanted = Counter(users or ()) or Counter({user: 1 for _, user in sorted(known)})
        return [_describe(user, times, known) for user, times in wanted.items()]

    def _known(self) -> dict[tuple[str, str], int]:
        """Iterations by mechanism and user."""
        stored = {key: credential.iterations for key, credential in self._stored.items()}
        return {**dict.fromkeys(self._passwords, ITERATIONS_MIN), **stored}

    @property
    def stored(self) -> Mapping[tuple[str, str], ScramCredential]:
        """The credentials that clients have set, by mechanism and user."""
        return self._stored

    def load(self, text: str) -> None:
        """Take in what `save` was given earlier.

        Raises:
            ConfigError: it is damaged, or of a newer version.
        """
        try:
            content = json.loads(text)
            if content["version"] != FORMAT_VERSION:
                raise ConfigError(f"{SCRAM_FILE}: version {content['version']} is not known, only {FORMAT_VERSION} is")
            self._stored = {
                (_mechanism(row["mechanism"]), str(row["user"])): ScramCredential(
                    salt=_decoded(row["salt"]),
                    stored_key=_decoded(row["stored_key"]),
                    server_key=_decoded(row["server_key"]),
                    iterations=int(row["iterations"]),
                )
                for row in content["credentials"]
            }
        except (KeyError, TypeError, ValueError):
            # Without the cause: it may show a part of the file.
            raise ConfigError(f"{SCRAM_FILE} in the data directory is damaged") from None


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _mechanism(name: str) -> str:
    return MECHANISM_OF_TYPE[TYPE_OF_MECHANISM[name]]


def _problem_of(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> _Problem | None:
    """The error of a change by its user and mechanism; None if they are valid."""
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in MECHANISM_OF_TYPE:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _problem_of_upsertion(change: ScramCredentialUpsertion) -> _Problem | None:
    problem = _problem_of(change)
    if problem is None and change.iterations < ITERATIONS_MIN:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if problem is None and change.iterations > ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return problem


def _new_credential(change: ScramCredentialUpsertion) -> ScramCredential:
    mechanism = MECHANISM_OF_TYPE[change.mechanism]
    return credential_of(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)


def _describe(user: str, times: int, known: Mapping[tuple[str, str], int]) -> Description:
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return Description(user, ErrorCode.DUPLICATE_RESOURCE, text, {})
    found = {name: known[name, user] for name in TYPE_OF_MECHANISM if (name, user) in known}
    if not found:
        text = f"Attempt to describe a user credential that does not exist: {user}"
        return Description(user, ErrorCode.RESOURCE_NOT_FOUND, text, {})
    return Description(user, ErrorCode.NONE, None, found)


def credentials_text(credentials: Mapping[tuple[str, str], ScramCredential]) -> str:
    """Return what `ScramCredentials.load` reads, for credentials by mechanism and user."""
    rows = [
        {
            "user": user,
            "mechanism": mechanism,
            "iterations": credential.iterations,
            "salt": base64.b64encode(credential.salt).decode(),
            "stored_key": base64.b64encode(credential.stored_key).decode(),
            "server_key": base64.b64encode(credential.server_key).decode(),
        }
        for (mechanism, user), credential in sorted(credentials.items())
    ]
    return json.dumps({"version": FORMAT_VERSION, "credentials": rows}, indent=1) + "\n"
