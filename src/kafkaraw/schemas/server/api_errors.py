"""The errors of the REST API: HTTP status, error code and message, exactly as Confluent's registry sends them. Pure.

Clients compare codes, and some compare messages, so no word of these texts may change, not even those that are spelled
oddly. Start at `ApiError`. Source: Confluent's rest.exceptions.Errors and rest.exceptions.Rest*Exception.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.schemas.server.records import Key

_NOT_FOUND, _CONFLICT, _INVALID, _FAILED = 404, 409, 422, 500


class ApiError(Exception):
    """A request that the registry refuses.

    Args:
        status: HTTP status.
        error_code: the registry's own code.
        message: what is wrong.
    """

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message

    def to_json(self) -> dict[str, object]:
        """Return the body of the answer."""
        return {"error_code": self.error_code, "message": self.message}


# -- 404


def subject_not_found(subject: str | None) -> ApiError:
    """There is no such subject."""
    return ApiError(_NOT_FOUND, 40401, f"Subject '{subject_text(subject)}' not found.")


def version_not_found(version: int) -> ApiError:
    """The subject has no such version."""
    return ApiError(_NOT_FOUND, 40402, f"Version {version} not found.")


def schema_not_found(wanted: int | str | None = None) -> ApiError:
    """There is no schema with this id, GUID or content."""
    return ApiError(_NOT_FOUND, 40403, "Schema not found" if wanted is None else f"Schema {wanted} not found")


def subject_soft_deleted(subject: str) -> ApiError:
    """The subject is deleted softly already."""
    message = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return ApiError(_NOT_FOUND, 40404, message)


def subject_not_soft_deleted(subject: str) -> ApiError:
    """The subject must be deleted softly first."""
    message = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return ApiError(_NOT_FOUND, 40405, message)


def version_soft_deleted(subject: str, version: int) -> ApiError:
    """The version is deleted softly already."""
    message = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return ApiError(_NOT_FOUND, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> ApiError:
    """The version must be deleted softly first."""
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return ApiError(_NOT_FOUND, 40407, message)


def no_subject_level(subject: str) -> ApiError:
    """The subject has no configuration of its own."""
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return ApiError(_NOT_FOUND, 40408, message)


def no_subject_mode(subject: str) -> ApiError:
    """The subject has no mode of its own."""
    return ApiError(_NOT_FOUND, 40409, f"Subject '{subject}' does not have subject-level mode configured")


# -- 409 and 422


def incompatible_schema(subject: str, messages: tuple[str, ...]) -> ApiError:
    """The compatibility level forbids the schema."""
    details = f"[{', '.join(messages)}]"
    text = "Schema being registered is incompatible with an earlier schema for subject"
    return ApiError(_CONFLICT, 40901, f'{text} "{subject}", details: {details}')


def invalid_schema(message: str) -> ApiError:
    """The schema cannot be parsed, or cannot be registered as it is."""
    return ApiError(_INVALID, 42201, message)


def invalid_version(version: str) -> ApiError:
    """The version is no number and not `latest`."""
    message = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return ApiError(_INVALID, 42202, message)


def invalid_level() -> ApiError:
    """The compatibility level is unknown."""
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return ApiError(_INVALID, 42203, message)


def invalid_mode(message: str | None = None) -> ApiError:
    """The mode is unknown, or not possible here."""
    text = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
    return ApiError(_INVALID, 42204, text if message is None else message)


def not_permitted(message: str) -> ApiError:
    """The mode forbids the operation."""
    return ApiError(_INVALID, 42205, message)


def numbers_used_up(subject: str, what: str) -> ApiError:
    """The highest number is in use: a record of the topic has it."""
    remedy = "register in another context" if what == "id" else "register under another subject"
    return not_permitted(f"no {what} is left for subject '{subject}': 2147483647 is in use; {remedy}")


def reference_exists(target: Key) -> ApiError:
    """A schema references the version."""
    return ApiError(_INVALID, 42206, f"One or more references exist to the schema {target}.")


def invalid_subject(subject: str) -> ApiError:
    """The registry does not accept the name."""
    return ApiError(_INVALID, 42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> ApiError:
    """The record does not fit into the topic."""
    return ApiError(_INVALID, 42209, "Register operation failed because schema is too large")


def invalid_rule_set(message: str) -> ApiError:
    """The rule set has a rule that is wrong."""
    return ApiError(_INVALID, 42210, message)


def context_not_empty(context: str) -> ApiError:
    """The context has subjects."""
    return ApiError(_INVALID, 42211, f"The specified context '{context}' is not empty.")


# -- 500


STORE_ERROR: Final = 50001
TIMED_OUT: Final = 50002
FORWARDING_FAILED: Final = 50003
UNKNOWN_LEADER: Final = 50004


def store_failed(message: str) -> ApiError:
    """Kafka refused the records."""
    return ApiError(_FAILED, STORE_ERROR, message)


def timed_out(operation: str) -> ApiError:
    """Whether the records are in the topic is unknown."""
    return ApiError(_FAILED, TIMED_OUT, f"{operation} operation timed out")


def forwarding_failed(message: str) -> ApiError:
    """The primary did not answer."""
    return ApiError(_FAILED, FORWARDING_FAILED, message)


def unknown_leader(message: str = "Leader not known.") -> ApiError:
    """No instance is the primary at the moment."""
    return ApiError(_FAILED, UNKNOWN_LEADER, message)


def subject_text(subject: str | None) -> str:
    """Return a subject as messages show it: the global configuration has none, which Java shows as `null`."""
    return "null" if subject is None else subject
