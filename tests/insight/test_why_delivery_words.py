"""What is said of an execution that waits for its exclusive key, its message or a slot."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from taskengine.broker.inspection import Strange
from taskengine.broker.queue import Place
from taskengine.insight.redis_state import AWAY, FOREIGN, FORGETFUL, GOOD, OFF, RedisState
from taskengine.insight.why import explain
from taskengine.store.why import COUNTED, KeyState, Load, Pace
from tests.insight.why_facts import (
    DAEMON,
    KEYED,
    LINE,
    NOW,
    NOWHERE,
    Case,
    ago,
    check,
    direct,
    made,
    micros,
)

STRANGE = RedisState(GOOD, strange=[Strange("te:queue:payroll", "payroll", "string")])
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
    (
        "pending.key_free",
        {**KEYED, "waits_for_key": True},
        direct(OFF, key=KeyState(None, None, None, None, None, 0)),
        "which is free now: a daemon claims it with its next turn.",
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
    ("pending.lost", {"check_at": ago(1)}, NOWHERE, "with its next turn and pushes it again."),
    (
        "pending.lost",
        {"check_at": NOW + timedelta(minutes=14)},
        NOWHERE,
        (
            "looks for it at 10:16:48Z and pushes it again, unless the comparison of both stores, every"
            " 1 min 0 s, finds it missing sooner."
        ),
    ),
    (
        "pending.on_its_way",
        {"run_at": ago(2), "created_at": ago(2)},
        NOWHERE,
        "has been pending for 2.0 s, its message is on its way: if it is lost, the delivery sweep",
    ),
    (
        "pending.redis_away",
        {},
        direct(AWAY, daemons=[replace(DAEMON, direct=True)]),
        (
            "is due, and Redis is away: daemons claim straight from Postgres, the oldest first (host-a/1"
            " does so now): number 14 of 210 in queue 'payroll'; nothing of that queue has ended"
        ),
    ),
    (
        "pending.redis_off",
        {},
        direct(OFF, urgent=4, pace=Pace(600, 300.0)),
        (
            "is due: Redis is switched off, daemons claim straight from Postgres, the oldest first:"
            " number 14 of 210 in queue 'payroll', after 4 in 'urgent', served first, which moves at"
            " 120 a minute (600 ended in the last 5 min 0 s)."
        ),
    ),
    (
        "pending.redis_off",
        {},
        direct(OFF, older=COUNTED, pace=Pace(600, 300.0)),
        "the oldest first: behind at least 10000 in queue 'payroll', which moves at 120 a minute",
    ),
    (
        "pending.full",
        {},
        direct(OFF, daemons=[replace(DAEMON, load=Load(20, 0, 0))]),
        "all 20 of 20 slots busy: number 14 of 210",
    ),
    (
        "pending.lane",
        {"orphanings": 1},
        direct(OFF, daemons=[replace(DAEMON, load=Load(2, 2, 0))]),
        "waits for a place in the quarantine lane: it was orphaned once, and few",
    ),
    (
        "pending.redis_strange",
        {},
        {"redis": STRANGE, "place": None},
        (
            "waits: the key 'te:queue:payroll' of its queue holds a string in Redis: a daemon writes it"
            " anew within 1 min 0 s."
        ),
    ),
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


def test_an_outage_of_redis_is_told_before_what_holds_it_up_there() -> None:
    full = [replace(DAEMON, load=Load(20, 0, 0))]
    told = explain(made({}, direct(AWAY, daemons=full)))
    assert (told.code, [each.code for each in told.also]) == (
        "pending.redis_away",
        ["pending.full"],
    )


def test_of_an_unlisted_queue_no_delivery_is_promised() -> None:
    """No sweep looks into it, and `rebuild-delivery` refuses it."""
    lost = made({"queue": "gone", **KEYED, "waits_for_key": True}, NOWHERE)
    free = replace(lost, key=KeyState(None, None, None, None, None, 0))
    for facts in (lost, free):
        told = explain(facts)
        assert [told.code, *(each.code for each in told.also)] == [
            "pending.unlisted",
            "pending.unpolled",
        ]
        assert told.steps == ()
