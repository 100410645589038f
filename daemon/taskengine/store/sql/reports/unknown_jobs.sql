-- Jobs with due executions that no daemon knows which beats and does not drain: nobody can run them now.
-- $1 seconds without a beat after which a daemon does not count
with due as materialized (
  select job as name, count(*) as waiting, min(run_at) as oldest
  from task_executions where state = 'pending' and run_at <= now() group by job
)
select d.name, d.waiting, extract(epoch from now() - d.oldest)::float8 as oldest
from due d
where not exists (
  select from task_workers w
  where w.stopped_at is null and w.dead_at is null and not w.draining
    and w.last_beat_at > now() - $1 * interval '1 s' and d.name = any(w.jobs))
order by d.name
