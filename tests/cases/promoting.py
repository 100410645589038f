"""`python -m tests.cases.promoting CONFIG`: a promoter at full speed, until it is killed."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

from taskengine.config import Config
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.parts import open_parts
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.services.promoter import Promoter


async def main() -> None:
    config = Config.load(Path(sys.argv[1]))
    parts = await open_parts(config, Registry(), SystemClock(), random.Random(1), "promoting")
    offset = time.time() - parts.clock.monotonic()
    promoter = Promoter(parts, Identity("promoting", offset=offset))
    while True:
        await promoter.tick()


if __name__ == "__main__":
    asyncio.run(main())
