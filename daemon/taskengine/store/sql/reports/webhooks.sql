-- Events of each source that wait to be processed, how many of them are stranded, and the age of the oldest in seconds.
-- $1 min age s of a stranded one
select v.source, count(*) as unprocessed,
  count(*) filter (where v.received_at < now() - $1 * interval '1 s' and not exists (
    select from task_executions e where e.subject = 'webhook:' || v.id and e.state in ('pending', 'running'))) as stranded,
  extract(epoch from now() - min(v.received_at))::float8 as oldest
from webhook_events v
where v.status = 'received' and v.processed_at is null and v.error is null
group by v.source order by v.source
