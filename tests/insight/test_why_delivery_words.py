"""What is said of an execution that waits for its exclusive key, its message or a slot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskengine.broker.queue import Place
from taskengine.insight.redis_state import AWAY, FOREIGN, FORGETFUL, OFF, RedisState
from taskengine.store.why import KeyState, Load
from tests.insight.why_facts import DAEMON, KEYED, LINE, NOW, NOWHERE, Case, ago, check, micros

CASES: list[Case] = [
    # ---- pending: its exclusive key ----
    (
        "pending.key_held",
        KEYED,
        {"key": KeyState(4700, "send-paystub", ago(60), "host-b/9", None, 0)},
        (
            "waits for its exclusive key 'emp:7', held by execution 4700 (send-paystub, running since"
            " 10:01:48Z on host-b/9)."
        ),
    ),
    (
        "pending.key_older",
        KEYED,
        {"key": KeyState(None, None, None, None, 4690, 2)},
        "has 2 older executions of its exclusive key 'emp:7' before it, the oldest of them 4690.",
    ),
    (
        "pending.key_free",
        {**KEYED, "waits_for_key": True},
        {**NOWHERE, "key": KeyState(None, None, None, None, None, 0)},
        "waits for its exclusive key 'emp:7', which is free now: the sweep pushes it within 15 s.",
    ),
    # ---- pending: its delivery ----
    (
        "pending.lost",
        {},
        NOWHERE,
        (
            "has no message in Redis: it was lost; the delivery sweep looks for it at 10:02:57Z and"
            " pushes it again."
        ),
    ),
    ("pending.lost", {"check_at": ago(1)}, NOWHERE, "looks for it with its next turn and pushes"),
    (
        "pending.on_its_way",
        {"run_at": ago(2), "created_at": ago(2)},
        NOWHERE,
        "has been pending for 2.0 s, its message is on its way: if it is lost, the delivery sweep",
    ),
    (
        "pending.redis_away",
        {},
        {"redis": RedisState(AWAY), "place": None, "daemons": [replace(DAEMON, direct=True)]},
        (
            "is due, and Redis is away: daemons claim straight from Postgres, the oldest first (host-a/1"
            " does so now)."
        ),
    ),
    ("pending.redis_off", {}, {"redis": RedisState(OFF), "place": None}, "Redis is switched off"),
    ("pending.redis_foreign", {}, {"redis": RedisState(FOREIGN)}, "another database's deliveries"),
    ("pending.redis_forgetful", {}, {"redis": RedisState(FORGETFUL)}, "lost its memory"),
    (
        "pending.reserved",
        {},
        {"place": Place(None, 0, micros(ago(2)), None)},
        (
            "was taken from its queue 2.0 s ago and is about to be claimed; where its taker died it goes"
            " back after 10 s."
        ),
    ),
    (
        "pending.reserved_too_long",
        {},
        {"place": Place(None, 0, micros(ago(30)), None)},
        "was taken from its queue 30 s ago and not claimed",
    ),
    (
        "pending.promoting",
        {},
        {"place": Place(None, 0, None, micros(ago(1)))},
        "is due just now, and on its way from the delayed set to its queue.",
    ),
    (
        "pending.put_off",
        {},
        {"place": Place(None, 0, None, micros(NOW) + 3_000_000)},
        "was put off for another 3.0 s by a daemon that could not claim it",
    ),
    (
        "pending.full",
        {},
        {**LINE, "daemons": [replace(DAEMON, load=Load(20, 0, 0))]},
        "waits for a free slot: 1 daemon could run it, all 20 of 20 slots busy: number 14 of 210",
    ),
    (
        "pending.lane",
        {"orphanings": 1},
        {"daemons": [replace(DAEMON, load=Load(2, 2, 0))]},
        "waits for a place in the quarantine lane: it was orphaned once, and few",
    ),
    (
        "pending.lane",
        {"orphanings": 2},
        {"daemons": [replace(DAEMON, load=Load(1, 0, 1))]},
        "twice",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_each_situation_has_its_words(case: Case) -> None:
    check(case)
