"""Tokens of Microsoft Entra for Azure, from Microsoft's own credentials (azure-identity).

`az login`, a managed identity, or AZURE_CLIENT_ID and what goes with it: whatever DefaultAzureCredential finds.
Reference: https://learn.microsoft.com/azure/ai-services/openai/how-to/managed-identity
"""

from __future__ import annotations

import time
from typing import Any, Final

from mbbq_gen.errors import MissingExtraError, ProviderError
from mbbq_gen.providers.local_source import is_installed

_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
_BEFORE: Final = 300.0
"""Seconds before its end at which a token is renewed."""


class EntraTokens:
    """Tokens, renewed before they run out. Nothing is imported before the first one is needed."""

    def __init__(self) -> None:
        self._credential: Any = None
        self._token = ""
        self._until = 0.0

    def check(self, name: str) -> None:
        """Raises MissingExtraError where azure-identity is not installed."""
        if not is_installed("azure.identity"):
            raise MissingExtraError(f"{name}: needs azure-identity; pip install 'mbbq-gen[entra]'")

    async def token(self) -> str:
        """A token that holds now.

        Raises:
            ProviderError: where Entra gives none.
        """
        if time.time() < self._until - _BEFORE:
            return self._token
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity.aio import DefaultAzureCredential

        if self._credential is None:
            self._credential = DefaultAzureCredential()
        try:
            found = await self._credential.get_token(_SCOPE)
        except ClientAuthenticationError as error:
            raise ProviderError("Microsoft Entra gives no token; log in anew (az login), nothing is lost") from error
        self._token, self._until = found.token, float(found.expires_on)
        return self._token

    async def close(self) -> None:
        """Closes the credential's connections."""
        if self._credential is not None:
            await self._credential.close()
            self._credential = None
