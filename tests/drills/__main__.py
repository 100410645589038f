"""`python -m tests.drills [NAME ...] [--json]`: outages under the default settings, by the clock.

A drill fails where anything is lost, run twice or out of order; its figures are this machine's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import uvloop

from taskengine.embedded import EmbeddedServers
from tests.drills import killed, memory, postgres_away, redis_away
from tests.drills.site import Site, build

Drill = Callable[[Site], Awaitable[dict[str, float]]]
_DRILLS: Mapping[str, Drill] = {
    "redis-away": redis_away.run,
    "memory": memory.run,
    "killed": killed.run,
    "postgres-away": postgres_away.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drills", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_DRILLS))
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    if unknown := set(options.names) - set(_DRILLS):
        parser.error(f"no such drill: {', '.join(sorted(unknown))}; there are {', '.join(_DRILLS)}")
    figures = {}
    for name in options.names or _DRILLS:
        figures[name] = _drill(_DRILLS[name])
        if not options.json:
            _show(name, figures[name])
    if options.json:
        print(json.dumps(figures))
    return 0


def _drill(drill: Drill) -> dict[str, float]:
    """On servers of its own, in a folder that is kept where it fails."""
    folder = Path(tempfile.mkdtemp(prefix="taskengine-drill-"))
    servers = EmbeddedServers(folder)

    async def run() -> dict[str, float]:
        site = await build(folder, servers)
        try:
            return await drill(site)
        finally:
            site.end()
            await site.engine.__aexit__(None, None, None)

    try:
        return uvloop.run(run())
    finally:
        servers.remove()


def _show(name: str, figures: Mapping[str, float]) -> None:
    print(name)
    for figure, value in figures.items():
        print(f"  {figure:<36}{value:>12,.2f}")


if __name__ == "__main__":
    sys.exit(main())
