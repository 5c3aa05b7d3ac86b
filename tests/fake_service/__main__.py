"""`python -m tests.fake_service --run RUN --settings '{"seed": 1}'` prints its address and serves until killed."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from tests.fake_service.app import Service
from tests.fake_service.client import listen


async def _serve() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--run", type=Path, help="run folder whose questions it knows")
    parser.add_argument("--settings", type=json.loads, default={}, help="tables of settings, as JSON")
    given = parser.parse_args()
    _, root = await listen(Service(given.settings, given.run), given.port)
    sys.stdout.write(root + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
