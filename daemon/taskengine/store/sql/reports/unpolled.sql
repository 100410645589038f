-- Queues with due executions, not paused, that no daemon polls which beats and does not drain: pushed but not polled.
-- $1 seconds without a beat after which a daemon does not count
with due as materialized (
  select queue as name, count(*) as waiting, min(run_at) as oldest
  from task_executions where state = 'pending' and run_at <= now() group by queue
)
select d.name, d.waiting, extract(epoch from now() - d.oldest)::float8 as oldest
from due d
where not exists (select from task_queues q where q.name = d.name and q.paused_at is not null)
  and not exists (
    select from task_workers w
    where w.stopped_at is null and w.dead_at is null and not w.draining
      and w.last_beat_at > now() - $1 * interval '1 s' and d.name = any(w.queues))
order by d.name
