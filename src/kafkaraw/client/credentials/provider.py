"""Tokens from a function of the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeGuard

from kafkaraw.client.credentials.source import Token
from kafkaraw.errors import AuthenticationError, KafkaError
from kafkaraw.net.threads import run_in_daemon_thread

Provider: TypeAlias = Callable[[], str | Awaitable[str]]


class ProvidedTokens:
    """Calls the function for each login, off the loop's thread unless it is a coroutine function.

    Args:
        provider: returns a token.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def token(self, timeout: float) -> Token:
        """See `TokenSource.token`."""
        provider = self._provider
        try:
            token = await provider() if _is_async(provider) else await run_in_daemon_thread(provider, "kafkaraw-token")
        except KafkaError:
            raise
        except Exception as error:  # the user's code may raise any exception; then there is no token
            raise AuthenticationError(f"sasl_oauth_token_provider failed: {type(error).__name__}: {error}") from error
        if not isinstance(token, str):
            raise AuthenticationError(
                f"sasl_oauth_token_provider must return the token as text, not {type(token).__name__}"
            )
        return Token(token)


def _is_async(provider: Provider) -> TypeGuard[Callable[[], Awaitable[str]]]:
    return inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(type(provider).__call__)
