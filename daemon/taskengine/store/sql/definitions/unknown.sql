-- Scheduled, enabled definitions whose job no living daemon knows.
-- $1 the jobs known to the daemon that asks
select d.name from task_job_definitions d
where d.schedule is not null and d.is_enabled and not (d.name = any($1::text[]))
  and not exists (
    select from task_workers w where w.stopped_at is null and w.dead_at is null and d.name = any(w.jobs))
order by d.name
