"""Facts of one execution by hand, and the check that a situation has its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from taskengine.broker.queue import Depth, Place
from taskengine.insight.redis_state import GOOD, RedisState
from taskengine.insight.why import Facts, explain
from taskengine.insight.why.facts import Daemon, Settings
from taskengine.model.execution import Attempt
from taskengine.store.why import Line, Load, Pace, Row

Case = tuple[str, Mapping[str, Any], Mapping[str, Any], str]
"""A code; what is otherwise in the row, and in the facts; what the headline holds."""

NOW = datetime(2026, 11, 2, 10, 2, 48, tzinfo=UTC)


def direct(memory: str, older: int = 13, urgent: int = 0, **more: Any) -> dict[str, Any]:
    """Claims go straight to Postgres, which has this line."""
    lines = {"urgent": Line(urgent, urgent), "payroll": Line(210, older)}
    return {"redis": RedisState(memory), "place": None, "lines": lines, **more}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


_EMPTY: dict[str, Any] = dict.fromkeys(Row._fields)
ROW = Row(**_EMPTY)._replace(
    at=NOW,
    id=4711,
    job="send-paystub",
    queue="payroll",
    key="paystub:7:2026-11",
    key_is_drawn=False,
    state="pending",
    attempt=1,
    fence=0,
    orphanings=0,
    interruptions=0,
    verify_next=False,
    waits_for_key=False,
    run_at=ago(41),
    check_at=NOW + timedelta(seconds=9),
    created_at=ago(41),
    is_defined=True,
    is_enabled=True,
    timeout=300,
    max_attempts=5,
    max_orphanings=3,
    max_interruptions=20,
    on_interrupt="retry",
)
DAEMON = Daemon("host-a/1", ["payroll"], ["send-paystub"], 20, False, False, 1.0, Load(3, 0, 0))
FACTS = Facts(
    row=ROW,
    history=[],
    moves={},
    daemons=[DAEMON],
    settings=Settings(["urgent", "payroll"], 12.0, 15.0, 15.0, 60.0, 10.0),
    redis=RedisState(GOOD, depths={"urgent": Depth(0, 0, 0), "payroll": Depth(1, 0, 0)}),
    place=Place(0, 1, None, None),
    pace=Pace(0, 300.0),
)
URGENT_TOO = RedisState(GOOD, depths={"urgent": Depth(4, 0, 0), "payroll": Depth(210, 0, 0)})
LINE = {"place": Place(13, 210, None, None)}
NOWHERE = {"place": Place(None, 3, None, None)}
RAN = {"worker": "host-a/1", "claimed_at": ago(12), "deadline_at": NOW + timedelta(seconds=288)}
RUNS = {**RAN, "state": "running", "fence": 1, "worker_beat_at": ago(1)}
OVER = {**RAN, "fence": 1, "finished_at": ago(5)}
FAILED = {**OVER, "state": "failed"}
CANCELLED = {**OVER, "state": "cancelled"}
KEYED = {"exclusive_key": "emp:7"}


def attempt(move: str, reason: str = "", error: str | None = None, **more: Any) -> Attempt:
    ran = Attempt(1, 1, move, reason, "host-a/1", error, None, ago(12), ago(5), "host-a/1")
    return replace(ran, **more)


def told_by(*history: Attempt) -> Mapping[str, Any]:
    moves = [each.move for each in history]
    return {"history": list(history), "moves": {move: moves.count(move) for move in moves}}


def made(row: Mapping[str, Any], facts: Mapping[str, Any]) -> Facts:
    return replace(FACTS, row=ROW._replace(**row), **facts)


LATER = {"run_at": NOW + timedelta(seconds=41)}


def check(case: Case) -> None:
    code, row, facts, words = case
    told = explain(made(row, facts))
    assert told.code == code
    assert words in told.headline
    assert told.headline.startswith("4711 send-paystub (attempt ")
