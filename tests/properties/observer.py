"""What an observer sees who is not the engine: each move of a row, all rows, and all messages."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from taskengine.lifecycle.parts import Parts

OBSERVER = """
create table moves (
  number bigint generated always as identity primary key, id bigint, old text, new text, token bigint,
  new_token bigint, worker bigint, fence bigint, attempt int, step int, due boolean, queue text, job text
);
create function observe() returns trigger language plpgsql as $$
begin
  insert into moves (id, old, new, token, new_token, worker, fence, attempt, step, due, queue, job)
  values (old.id, old.state, new.state, old.claim_token, new.claim_token, new.worker_id, new.fence,
    old.attempt, new.attempt - old.attempt, old.run_at <= now(), old.queue, old.job);
  return null;
end $$;
create trigger observe after update on task_executions for each row
  when ((old.state, old.claim_token, old.fence, old.attempt)
    is distinct from (new.state, new.claim_token, new.fence, new.attempt))
  execute function observe();
"""

_ROWS = """
select id, job, idempotency_key, queue, state, claim_token, worker_id, fence, attempt, exclusive_key,
  check_at <= greatest(run_at, now()) + interval '16 min' as checked_in_time
from task_executions order by id
"""


class Move(NamedTuple):
    """One change of a row's state, claim, fence or attempt (`step`: by how much)."""

    number: int
    id: int
    old: str
    new: str
    token: int | None
    new_token: int | None
    worker: int | None
    fence: int
    attempt: int
    step: int
    due: bool
    queue: str
    job: str


class Row(NamedTuple):
    """An execution as it stands."""

    id: int
    job: str
    key: str
    queue: str
    state: str
    token: int | None
    worker: int | None
    fence: int
    attempt: int
    exclusive_key: str | None
    checked_in_time: bool

    @property
    def ended(self) -> bool:
        return self.state not in ("pending", "running")

    @property
    def can_be_redriven(self) -> bool:
        return self.state in ("failed", "cancelled")


class Messages(NamedTuple):
    """Where each id's messages are: queues by kind."""

    waiting: dict[int, list[str]]
    processing: dict[int, list[str]]


async def moves_after(parts: Parts, number: int) -> list[Move]:
    async with parts.store.connection() as c:
        found = await c.fetch("select * from moves where number > $1 order by number", number)
    return [Move(*r.values()) for r in found]


async def rows_of(parts: Parts) -> dict[int, Row]:
    async with parts.store.connection() as c:
        return {r["id"]: Row(*r.values()) for r in await c.fetch(_ROWS)}


async def buried_workers(parts: Parts) -> set[int]:
    async with parts.store.connection() as c:
        found = await c.fetch("select id from task_workers where dead_at is not null")
    return {r["id"] for r in found}


async def messages(parts: Parts) -> Messages:
    keys, names = parts.keys, parts.queues.names
    kinds = (keys.queue, keys.delayed, keys.processing)
    asked = [("ZRANGE", kind(name), 0, -1) for kind in kinds for name in names]
    answers = iter(await parts.client.commands(asked))
    found = Messages(defaultdict(list), defaultdict(list))
    for kind in kinds:
        where = found.processing if kind == keys.processing else found.waiting
        for name in names:
            for member in next(answers):
                where[int(member)].append(name)
    return found
