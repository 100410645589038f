-- Takes stranded events, the oldest first: counts the recovery and moves recover_at on, doubling, before anything is dispatched.
-- $1 sources, $2 limit, $3 min age s, $4 max recoveries
-- Stale and unclaimed are both needed: what a pending or running execution names as its subject is left alone.
with stranded as materialized (
  select v.id from webhook_events v
  where v.status = 'received' and v.processed_at is null and v.error is null
    and v.recover_at <= now() and v.received_at < now() - $3 * interval '1 s'
    and v.recoveries < $4 and v.source = any($1::text[])
    and not exists (
      select from task_executions e where e.subject = 'webhook:' || v.id and e.state in ('pending', 'running'))
  order by v.received_at, v.id limit $2 for no key update of v skip locked
)
update webhook_events v
set touched_at = now(), recoveries = v.recoveries + 1,
  recover_at = now() + least($3 * power(2, least(v.recoveries, 30)), 86400) * interval '1 s'
from stranded s where v.id = s.id
returning v.id, v.source, v.type, v.recoveries, v.received_at
