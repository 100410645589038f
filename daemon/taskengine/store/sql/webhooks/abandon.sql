-- Marks events that were recovered as often as is allowed and are stranded again. Each is returned once.
-- $1 sources, $2 limit, $3 max recoveries
with worn as materialized (
  select v.id from webhook_events v
  where v.status = 'received' and v.processed_at is null and v.error is null
    and v.recover_at <= now() and v.recoveries >= $3 and v.source = any($1::text[])
    and not exists (
      select from task_executions e where e.subject = 'webhook:' || v.id and e.state in ('pending', 'running'))
  order by v.received_at, v.id limit $2 for no key update of v skip locked
)
update webhook_events v
set touched_at = now(), error = 'not processed after ' || v.recoveries || ' recoveries'
from worn w where v.id = w.id
returning v.id, v.source, v.type, v.recoveries, v.received_at
