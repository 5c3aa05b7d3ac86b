"""Downloads one large file and resumes an interrupted download.

    NAME.part        what has arrived
    NAME.part.json   where it came from, and the server's mark of that edition (its ETag or date)

The rest is requested with Range and If-Range, so that two editions are never glued together: a server that has another
edition by now, that gives no mark or that knows no ranges sends the whole file, and we start over.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import tenacity
from pydantic import ValidationError

from mbbq_gen.core.errors import DownloadError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.core.text import seconds_of

ATTEMPTS: Final = 5
LONGEST_WAIT: Final = 120.0
"""Seconds. A server that asks for a longer pause ends the download with an error."""
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_PAUSES: Final = tenacity.wait_exponential(multiplier=0.5, max=20.0) + tenacity.wait_random(0.0, 0.5)
_RANGE: Final = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<total>\d+|\*)")


class _TransientError(Exception):
    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause


class _Origin(FrozenModel):
    url: str
    mark: str | None
    """What the server calls this edition of the file: a strong ETag, or the date of its last change."""


@dataclass(frozen=True)
class Download:
    """A file at an address, on its way to a place on disk."""

    url: str
    part: Path
    """Where it arrives; kept when the download fails, so that it goes on there."""
    client: httpx.Client
    largest: int
    """Bytes; a longer file is refused."""
    sleep: Callable[[float], None] = time.sleep
    step: Callable[[int, int | None], None] = lambda _done, _total: None
    """Called with the bytes received and the total, None where the server does not give it."""

    def fetch(self) -> None:
        """Makes `part` the whole file; raises DownloadError where the server does not give it after a few tries."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=_pause,
            retry=tenacity.retry_if_exception_type(_TransientError),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            retrying(self._try)
        except _TransientError as error:
            size = self.part.stat().st_size if self._known_mark() else 0
            kept = f"{size:,} bytes are kept, the same command goes on from there" if size else "try again later"
            raise DownloadError(f"{self.url}: {error}, {ATTEMPTS} times; {kept}") from error

    def discard(self) -> None:
        """Removes what has arrived."""
        self.part.unlink(missing_ok=True)
        self._origin_path.unlink(missing_ok=True)

    @property
    def _origin_path(self) -> Path:
        return self.part.with_name(self.part.name + ".json")

    def _known_mark(self) -> str | None:
        """The mark of the edition that the part is of; None where the download can't go on with it."""
        try:
            origin = _Origin.model_validate_json(self._origin_path.read_bytes())
        except (OSError, ValidationError):
            return None
        return origin.mark if origin.url == self.url and self.part.is_file() else None

    def _try(self) -> None:
        mark = self._known_mark()
        have = self.part.stat().st_size if mark else 0
        headers = {"Accept-Encoding": "identity"}
        if mark and have:
            headers |= {"Range": f"bytes={have}-", "If-Range": mark}
        try:
            with self.client.stream("GET", self.url, headers=headers) as response:
                self._take(response, have, mark)
        except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise _TransientError(_first_line(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DownloadError(f"{self.url}: {_first_line(error)}") from error

    def _take(self, response: httpx.Response, have: int, mark: str | None) -> None:
        """Writes what a response brings after the first `have` bytes, or raises for one that brings nothing of use."""
        found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        start = int(found["start"]) if found and found["start"] else None
        total = int(found["total"]) if found and found["total"] != "*" else None
        status = f"{response.status_code} {response.reason_phrase}".strip()
        if response.status_code == httpx.codes.OK:
            self._receive(response, 0)
        elif response.status_code == httpx.codes.PARTIAL_CONTENT:
            if have == 0 or start != have or _mark(response) not in (None, mark):
                self.discard()
                raise _TransientError("the server sent another part than requested")
            if self._receive(response, have) != (total or self.part.stat().st_size):
                raise _TransientError("the server sent fewer bytes than requested")
        elif response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if have == 0 or (start, total) != (None, have):
                self.discard()
                raise _TransientError("the server's file has changed")
        elif response.status_code not in _TRANSIENT:
            raise DownloadError(f"{self.url}: the server answers {status}; give another source with --from")
        else:
            pause = seconds_of(response.headers.get("Retry-After", ""))
            if pause is not None and pause > LONGEST_WAIT:
                raise DownloadError(f"{self.url}: the server answers {status} and asks to wait {pause:.0f} s; try then")
            raise _TransientError(f"the server answers {status}", pause)

    def _receive(self, response: httpx.Response, have: int) -> int:
        """Writes what comes after the first `have` bytes; the size then."""
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        self._check_size(total or have)
        if not have:
            self.discard()  # before the new mark is written: it must never stand beside bytes of another edition
            self._origin_path.write_text(_Origin(url=self.url, mark=_mark(response)).model_dump_json(), "utf-8")
        with self.part.open("ab" if have else "wb") as stream:
            self.step(have, total)
            for piece in response.iter_raw():
                have += len(piece)
                self._check_size(have)
                stream.write(piece)
                self.step(have, total)
        return have

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            self.discard()
            raise DownloadError(f"{self.url}: {size:,} bytes or more, larger than any release; not downloaded")


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds before the next try: the time that the server named, else longer each time."""
    error = state.outcome.exception() if state.outcome is not None else None
    pause = error.pause if isinstance(error, _TransientError) else None
    return _PAUSES(state) if pause is None else pause


def _mark(response: httpx.Response) -> str | None:
    """What If-Range may name: a strong ETag, else the date of the last change, else None."""
    etag: str = response.headers.get("ETag", "")
    date: str | None = response.headers.get("Last-Modified")
    return etag if etag.startswith('"') else date


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
