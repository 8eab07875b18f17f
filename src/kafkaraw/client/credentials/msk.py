"""AWS MSK with IAM: an OAUTHBEARER login whose token is a signed request, made by Amazon's signer (extra `msk`).

The signer finds AWS credentials by itself, which may ask a metadata service: off the loop's thread.
Source: aws-msk-iam-sasl-signer-python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.client.credentials.source import Token
from kafkaraw.errors import AuthenticationError, ConfigError
from kafkaraw.net.threads import run_in_daemon_thread

NAME: Final = "AWS_MSK_IAM"
MISSING: Final = (
    f"sasl_mechanism={NAME!r} needs the package aws-msk-iam-sasl-signer-python: pip install 'kafkaraw[msk]'"
)


def load_signer() -> Callable[[str], tuple[str, int]]:
    """Amazon's function that makes a token for a region.

    Raises:
        ConfigError: the package is not installed; says how to.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError as error:
        raise ConfigError(MISSING) from error
    signer: Callable[[str], tuple[str, int]] = MSKAuthTokenProvider.generate_auth_token
    return signer


class SignedTokens:
    """Makes tokens with the signer.

    Args:
        region: of the cluster, such as eu-central-1.
        sign: see `load_signer`.
    """

    def __init__(self, region: str, sign: Callable[[str], tuple[str, int]]) -> None:
        self._region = region
        self._sign = sign

    async def token(self, timeout: float) -> Token:
        """See `TokenSource.token`."""
        try:
            value, expires_ms = await run_in_daemon_thread(lambda: self._sign(self._region), "kafkaraw-token")
        except Exception as error:  # botocore has many, and all mean that there is no token
            raise AuthenticationError(
                f"no token for MSK in {self._region!r}: {type(error).__name__}: {error}; are there AWS credentials?"
            ) from error
        return Token(value, int(expires_ms))
