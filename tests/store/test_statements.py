"""The SQL files: each is prepared against the migrated schema, used, and says what it takes; and the
hot ones have one path to a row, the primary key, however misleading the statistics are."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import taskengine
from taskengine.lifecycle.parts import Parts
from taskengine.model.settlement import Settlement, Success
from taskengine.store.pool import Connection
from taskengine.store.statements import STATEMENTS, sql

_ALL = pytest.mark.parametrize("name", sorted(STATEMENTS))


def _head_and_body(name: str) -> tuple[str, str]:
    """The comment lines at the head, and the rest."""
    lines = STATEMENTS[name].splitlines()
    count = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:count]), "\n".join(lines[count:])


async def test_every_statement_can_be_prepared(parts: Parts) -> None:
    """One test for all: each would need a schema of its own."""
    refused = {}
    async with parts.store.connection() as c:
        for name, text in STATEMENTS.items():
            try:
                await c.prepare(text)
            except Exception as error:
                refused[name] = str(error)
    assert refused == {}


@_ALL
def test_every_statement_is_used(name: str) -> None:
    folder = Path(taskengine.__file__).parent / "store"
    used = [path.name for path in folder.glob("*.py") if f'sql("{name}")' in path.read_text()]
    assert len(used) >= 1


@_ALL
def test_every_statement_says_its_sense_and_names_its_parameters(name: str) -> None:
    head, body = _head_and_body(name)
    sense = head.splitlines()[0].removeprefix("--").strip() if head else ""
    assert len(sense) > 10
    assert sense[0] != "$"
    taken = {int(number) for number in re.findall(r"\$(\d+)", body)}
    assert taken == set(range(1, len(taken) + 1))
    named = {int(number) for number in re.findall(r"\$(\d+)", head)}
    assert named >= taken, f"its head does not name ${sorted(taken - named)}"
    assert named <= taken, f"its head names ${sorted(named - taken)}, which it does not take"


@_ALL
def test_every_file_holds_one_statement(name: str) -> None:
    _, body = _head_and_body(name)
    code = re.sub(r"--.*|'[^']*'", "", body).rstrip().removesuffix(";")
    assert ";" not in code


# ---- the hot ones --------------------------------------------------------------------------------

_HISTORY = """
insert into task_executions (job, queue, idempotency_key, state, finished_at, run_at, created_at)
select 'work', 'default', 'old ' || n, 'succeeded', t, t, t
from generate_series(1, 5000) n, (select now() - interval '1 d' as t) as yesterday
"""
_PENDING = """
insert into task_executions (job, queue, idempotency_key)
select 'work', 'default', 'pending ' || n from generate_series(1, 3000) n
"""
_RUNNING = """
insert into task_executions (job, queue, idempotency_key, state, worker_id, claim_token, claimed_at)
select 'work', 'default', 'running ' || n, 'running', 1, 5, now() from generate_series(1, 3000) n
"""
_DEFINITION = """
insert into task_job_definitions (name, display_name, queue) values ('work', 'Work', 'default')
"""

MOMENTS = {"nothing is pending": _RUNNING, "nothing is running": _PENDING, "all is over": "select"}


async def _at(c: Connection, moment: str) -> list[int]:
    """The statistics of that moment, and the ids of a batch that comes right after it."""
    for statement in (_DEFINITION, _HISTORY, MOMENTS[moment]):
        await c.execute(statement)
    for table in ("task_executions", "task_job_definitions", "task_workers", "task_queues"):
        await c.execute(f"analyze {table}")
    await c.execute(_PENDING.replace("pending", "new"))
    rows = await c.fetch("select id from task_executions order by id desc limit 1000")
    ids = [row["id"] for row in rows]
    random.Random(1).shuffle(ids)
    return ids


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


def _arguments(statement: str, ids: Sequence[int]) -> list[Any]:
    ids = sorted(ids)
    if statement == "executions/claim":
        return [ids, 1, 7, ["work"]]
    if statement == "executions/succeed":
        return _columns([Success(i, 5, '{"n": 1}', None, None, None) for i in ids])
    if statement == "executions/progress":
        return _columns([(i, 5, 50, "half") for i in ids])
    rows = [Settlement(i, 5, "retried", "pending", 60.0, 1, reason="failed") for i in ids]
    *columns, verify = _columns(rows)
    return [*columns, "a worker", "high", 15.0, verify]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _paths(plan: dict[str, Any]) -> set[str]:
    """How rows of task_executions are found."""
    paths = set()
    for node in _nodes(plan):
        index = str(node.get("Index Name", ""))
        if index.startswith("task_executions"):
            paths.add(index if "Index Cond" in node else f"all of {index}")
        elif node.get("Relation Name") == "task_executions" and node["Node Type"] == "Seq Scan":
            paths.add("all of it")
    return paths


async def _generic_plan(c: Connection, text: str, count: int) -> Any:
    """The plan that is made once for whatever arguments come."""
    await c.execute("set plan_cache_mode = force_generic_plan")
    await c.execute(f"prepare hot as {text}")
    nothing = ", ".join(["null"] * count)
    answer = await c.fetchval(f"explain (format json) execute hot({nothing})")
    await c.execute("deallocate hot; reset plan_cache_mode")
    return json.loads(answer)[0]["Plan"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_the_hot_statements_read_nothing_but_the_primary_key(
    parts: Parts, moment: str
) -> None:
    """EXPLAIN after ANALYZE at the worst moments, for small and full batches, and for any values."""
    found = {}
    async with parts.store.connection() as c:
        ids = await _at(c, moment)
        for verb in ("claim", "succeed", "settle", "progress"):
            text = sql(f"executions/{verb}")
            for count in (1, 20, 500, 1000):
                given = _arguments(f"executions/{verb}", ids[:count])
                answer = await c.fetchval(f"explain (format json) {text}", *given)
                found[verb, count] = _paths(json.loads(answer)[0]["Plan"])
            found[verb, 0] = _paths(await _generic_plan(c, text, len(given)))
    assert found == {key: {"task_executions_pkey"} for key in found}


async def test_a_claim_touches_as_many_rows_as_it_claims(parts: Parts) -> None:
    """Counted by the server: index entries read in one real claim of 500."""
    async with parts.store.transaction() as c:
        await c.execute(
            "insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots)"
            " values ('w', 'h', 1, 'b', 'v', '{}', '{}', 1)"
        )
        ids = await _at(c, "nothing is pending")
        given = _arguments("executions/claim", ids[:500])
        lines = await c.fetchval(
            f"explain (analyze, format json) {sql('executions/claim')}", *given
        )
    plan = json.loads(lines)[0]["Plan"]
    scans = [n for n in _nodes(plan) if n.get("Index Name") == "task_executions_pkey"]
    assert sum(n["Actual Rows"] * n["Actual Loops"] for n in scans) == 500


_KEYED = """
insert into task_executions (job, queue, idempotency_key, exclusive_key, waits_for_key)
select 'work', 'default', 'keyed ' || n, 'key ' || n % 30, n > 30 from generate_series(1, 3000) n
"""
_HOLDERS = """
insert into task_executions
  (job, queue, idempotency_key, state, worker_id, claim_token, claimed_at, exclusive_key)
select 'work', 'default', 'holder ' || n, 'running', 1, 5, now(), 'key ' || n
from generate_series(0, 14) n
"""
_OF_KEYS = {
    "task_executions_pkey",
    "task_executions_waiters",
    "task_executions_marked",
    "task_executions_exclusive",
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_the_statements_on_exclusive_keys_read_by_the_key(parts: Parts, moment: str) -> None:
    """And by nothing else, at the worst moments; the sweep reads no more than a few rows a key."""
    found = {}
    async with parts.store.connection() as c:
        await _at(c, moment)
        await c.execute(_KEYED + ";" + _HOLDERS)
        rows = await c.fetch("select id from task_executions where exclusive_key is not null")
        ids, keys = [row["id"] for row in rows], [f"key {n}" for n in range(30)]
        given: dict[str, list[Any]] = {
            "claim_apart": [ids[:500], 1, 7, ["work"], ["work"]],
            "mark_waiting": [ids[:500], ["work"]],
            "next_of_keys": [keys, ["default", "low"], None],
            "next_of_free_keys": [["default", "low"], 1000, None, ""],
        }
        for verb, arguments in given.items():
            text = sql(f"executions/{verb}")
            answer = await c.fetchval(f"explain (format json) {text}", *arguments)
            paths = _paths(json.loads(answer)[0]["Plan"])
            found[verb] = paths | _paths(await _generic_plan(c, text, len(arguments)))
        text = sql("executions/next_of_free_keys")
        free = given["next_of_free_keys"]
        answer = await c.fetchval(f"explain (analyze, format json) {text}", *free)
    assert {verb: paths - _OF_KEYS for verb, paths in found.items()} == {
        verb: set() for verb in given
    }
    nodes = [n for n in _nodes(json.loads(answer)[0]["Plan"]) if n.get("Index Name")]
    assert 0 < sum(n["Actual Rows"] * n["Actual Loops"] for n in nodes) < 200


@pytest.mark.parametrize("moment", MOMENTS)
async def test_direct_mode_reads_one_row_after_another_until_it_has_enough(
    parts: Parts, moment: str
) -> None:
    """Neither sorted nor read to the end, whatever the statistics and the arguments are."""
    text = sql("executions/lock_due")
    given = [["default"], [100], [None], [None], 100, ["work"], True, True]
    async with parts.store.connection() as c:
        await _at(c, moment)
        plan = json.loads(await c.fetchval(f"explain (analyze, format json) {text}", *given))
        generic = await _generic_plan(c, text, len(given))
    for each in (plan[0]["Plan"], generic):
        assert _paths(each) == {"task_executions_due"}
        assert "Sort" not in {node["Node Type"] for node in _nodes(each)}
    (scan,) = [n for n in _nodes(plan[0]["Plan"]) if n.get("Index Name") == "task_executions_due"]
    assert scan["Actual Rows"] == 100
