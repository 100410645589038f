"""`python -m tests.bench [--json] [--only NAME]`: one worker process on the embedded servers.

Absolute figures hold for the machine alone: compare ratios of one run. The default configuration
first, then the same with 1,000 slots.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import uvloop

from taskengine.client import TaskEngine
from taskengine.config import Config
from taskengine.embedded import EmbeddedServers, Servers
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.rebuild import remember
from taskengine.store import migrate
from tests.bench import workloads
from tests.bench.starting import start
from tests.bench.workloads import Bench

_CONFIG = """
[postgres]
dsn = "{dsn}"
[redis]
url = "{redis}"
[jobs]
modules = ["tests.bench.jobs"]
[web]
port = 0
[workers]
slots = {slots}
[logs]
level = "warning"
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--slots", type=int, nargs="*", default=[200, 1000], help="one run each")
    parser.add_argument(
        "--only", choices=["dispatch", "drain", "latency", "start"], help="a part of it"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="taskengine-bench-"))
    servers = EmbeddedServers(folder)
    try:
        figures = uvloop.run(_runs(folder, servers.start(), options.slots, options.only))
    finally:
        servers.stop()
        servers.remove()
    print(json.dumps(figures) if options.json else _table(figures))
    return 0


async def _runs(
    folder: Path, servers: Servers, slots: list[int], only: str | None
) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for count in slots:
        path = folder / f"bench-{count}.toml"
        path.write_text(_CONFIG.format(dsn=servers.dsn, redis=servers.redis_url, slots=count))
        config = Config.load(path)
        await migrate.up(config.postgres)
        async with TaskEngine(config) as engine:
            await sync(engine.parts)
            await remember(engine.parts)
            bench = Bench(engine, path, folder / "records")
            figures[f"{count} slots"] = await _run(bench, only)
    return figures


async def _run(bench: Bench, only: str | None) -> dict[str, float]:
    figures = await workloads.limits(bench)
    if only in (None, "dispatch"):
        await bench.clear()
        figures["bulk_dispatch_per_second"] = await workloads.bulk(bench)
        figures["concurrent_dispatch_per_second"] = await workloads.concurrent(bench)
        figures["sequential_dispatch_per_second"] = await workloads.sequential(bench)
    if only in (None, "drain"):
        for moment in ("", "idle", "loaded"):
            found = await workloads.drain(bench, moment)
            suffix = f"_analyzed_{moment}" if moment else ""
            figures |= {f"drain{suffix}_{name}": value for name, value in found.items()}
    if only in (None, "latency"):
        figures |= await workloads.latency_and_idle(bench)
    if only in (None, "start"):
        await bench.clear()
        figures |= await start(bench.config, bench.records.parent)
    return figures


def _table(figures: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(figures.values())))
    head = f"{'':<40}" + "".join(f"{run:>14}" for run in figures)
    rows = [
        f"{name:<40}" + "".join(f"{run[name]:>14,.2f}" for run in figures.values())
        for name in names
    ]
    return "\n".join([head, *rows])


if __name__ == "__main__":
    sys.exit(main())
