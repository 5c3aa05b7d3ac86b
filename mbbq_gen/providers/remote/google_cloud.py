"""Vertex AI: where a project's models are, and tokens from Google's own credentials (google-auth).

Application default credentials: `gcloud auth application-default login`, a service account's file, the machine's own.
Reference: https://cloud.google.com/docs/authentication/application-default-credentials
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mbbq_gen.errors import MissingExtraError, ProviderError, UsageError
from mbbq_gen.providers.local_source import is_installed

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True)
class VertexPlace:
    """A project and a region."""

    project: str
    region: str

    @property
    def path(self) -> str:
        """Where it stands below the version."""
        return f"/projects/{self.project}/locations/{self.region}"


def vertex_place(projects: Sequence[str] = (), regions: Sequence[str] = ()) -> VertexPlace | None:
    """Project and region as the environment names them, by these variables or Google's own; None without a project."""
    project = _first((*projects, "GOOGLE_CLOUD_PROJECT"))
    region = _first((*regions, "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"))
    return VertexPlace(project, region or "global") if project else None


def _first(names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def vertex_address(place: VertexPlace | None) -> str:
    """The server of a region."""
    if place is None or place.region == "global":
        return "https://aiplatform.googleapis.com"
    return f"https://{place.region}-aiplatform.googleapis.com"


class GoogleCredentials:
    """Tokens, renewed when they run out. Nothing is imported before the first one is needed."""

    def __init__(self) -> None:
        self._found: Any = None
        self._lock = asyncio.Lock()

    def check(self, name: str) -> None:
        """Raises UsageError where there are no credentials."""
        if not is_installed("google.auth"):
            raise MissingExtraError(f"{name}: needs google-auth; pip install 'mbbq-gen[vertex]'")
        self._credentials(name)

    def _credentials(self, name: str = "Vertex AI") -> Any:
        if self._found is None:
            import google.auth
            from google.auth.exceptions import DefaultCredentialsError

            try:
                self._found, _ = google.auth.default(scopes=[_SCOPE])
            except DefaultCredentialsError as error:
                raise UsageError(
                    f"{name}: no Google credentials; first: gcloud auth application-default login, or name a service"
                    " account's file in GOOGLE_APPLICATION_CREDENTIALS"
                ) from error
        return self._found

    async def token(self) -> str:
        """A token that holds now.

        Raises:
            ProviderError: where Google gives none.
        """
        credentials = self._credentials()
        if not credentials.valid:
            async with self._lock:
                if not credentials.valid:
                    await asyncio.to_thread(_renew, credentials)
        return str(credentials.token)


def _renew(credentials: Any) -> None:
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        credentials.refresh(Request())
    except GoogleAuthError as error:
        raise ProviderError(f"Google gives no token ({type(error).__name__}); log in anew, nothing is lost") from error
