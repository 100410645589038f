"""All that was seen of one execution, in its order."""

from __future__ import annotations

from tests.chaos.cluster import Connection

_HISTORY = """
select at, 'claimed fence ' || fence || ' attempt ' || attempt || ' worker ' || worker_id as what
from chaos.claims where execution_id = $1
union all select at, 'settled fence ' || fence || ' as ' || state || ', next attempt ' || next_attempt
from chaos.settled where execution_id = $1
union all select at, 'history fence ' || fence || ' ' || move || ': ' || reason
from chaos.history where execution_id = $1
union all select at, 'inserted ' || job || ' ' || key from chaos.inserted where execution_id = $1
union all select at, 'deleted' from chaos.deleted where execution_id = $1
union all select null, 'body fence ' || fence || ' by ' || worker || ' ended ' || coalesce(ended, '–')
from chaos.bodies where execution_id = $1
union all select now(), format('now %s fence %s attempt %s run_at %s', state, fence, attempt, run_at)
from task_executions where id = $1
order by 1
"""


async def history_of(c: Connection, execution_id: int) -> list[str]:
    """All that was seen of one execution."""
    return [f"{at or ''} {what}" for at, what in await c.fetch(_HISTORY, execution_id)]
