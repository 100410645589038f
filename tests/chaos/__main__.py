"""Chaos by a seed: daemons, load and faults, judged from outside. Status 1: a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import sys

import uvloop

from tests.chaos.faults import KINDS
from tests.chaos.plan import Rhythm
from tests.chaos.run import Order, Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--daemons", type=int, default=3, choices=range(1, 5))
    parser.add_argument("--rate", type=float, default=110.0, help="dispatches a second")
    parser.add_argument("--lanes", type=int, default=2, help="faults at a time, at the most")
    parser.add_argument("--gap", type=float, default=1.0, help="seconds between two, at the least")
    parser.add_argument("--only", nargs="+", default=(), metavar="KIND", choices=tuple(KINDS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    given = parser.parse_args()
    rhythm = Rhythm(given.lanes, (given.gap, given.gap + 3.0))
    order = Order(given.seed, given.minutes, given.daemons, given.rate, rhythm, tuple(given.only))
    if given.plan:
        print(*order.plan(), sep="\n")
        return 0
    run = Run(order)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(run.run())
    print(report.as_json() if given.json else report.as_text())
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
