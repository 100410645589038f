"""The doctor's list of findings is complete, and its questions are quick beside a long history."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import taskengine
from taskengine.insight.doctor.catalogue import CATALOGUE
from taskengine.lifecycle.parts import Parts
from taskengine.store.statements import sql
from tests.insight.doctor_ward import Ward


def test_every_code_that_is_used_stands_in_the_catalogue_and_the_other_way_round() -> None:
    """And in the guide for operators."""
    root = Path(taskengine.__file__).parent
    files = [*(root / "insight/doctor").glob("*.py"), root / "insight/problems.py"]
    texts = {each.name: each.read_text() for each in files if each.name != "catalogue.py"}
    used = {
        code
        for text in texts.values()
        for code in re.findall(r'(?:finding|Problem)\(\s*"([a-z]+\.[a-z_]+)"', text)
    }
    built = {code for code in CATALOGUE if code.startswith(("delivery.", "postgres."))}
    assert used <= CATALOGUE.keys()
    assert CATALOGUE.keys() - used <= built
    guide = (root / "insight/doctor/README.md").read_text()
    assert set(re.findall(r"^\| `([a-z._]+)` \|", guide, re.MULTILINE)) == CATALOGUE.keys()


_HISTORY = """
insert into task_executions (
  job, queue, idempotency_key, state, finished_at, claimed_at, created_at, run_at, failure_reported_at)
select 'work', 'default', 'h' || n, case when n % 200 = 0 then 'failed' else 'succeeded' end,
  t, t, t, t, t
from generate_series(1, 100000) n, lateral (select now() - n * interval '1 min' as t) at
"""


@pytest.fixture
async def history(ward: Ward) -> Parts:
    """100,000 executions of the past, and a few that live."""
    await ward.sql(_HISTORY)
    for _ in range(5):
        await ward.dispatch()
    await ward.running()
    await ward.sql("analyze task_executions")
    return ward.parts


async def test_history_is_not_read(history: Parts) -> None:
    asked: dict[str, tuple[object, ...]] = {
        "doctor/pending": ("default", 5000),
        "doctor/states": (list(range(1, 1001)),),
        "doctor/waiting_again": (list(range(1, 1001)),),
        "doctor/under_dead": (1000,),
        "doctor/past_deadline": (60.0, 1000),
        "doctor/quarantined": (86_400.0, 2000),
        "doctor/unreported": (86_400.0, 600.0),
        "doctor/notices": ("taskengine.notify-failure", 86_400.0, 600.0),
    }
    plans = {}
    async with history.store.connection() as c:
        for name, arguments in asked.items():
            lines = await c.fetch(f"explain (analyze, costs off) {sql(name)}", *arguments)
            plans[name] = "\n".join(line[0] for line in lines)
    read = [name for name, plan in plans.items() if "Seq Scan on task_executions" in plan]
    assert read == []
