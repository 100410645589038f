-- Moves fired_until, only from the value and the version read; no row back: somebody else did it, or is at it.
-- $1 name, $2 fired_until read, $3 version read, $4 fired_until to be, $5 the listed queues
with mine as materialized (
  select name from task_job_definitions
  where name = $1 and fired_until = $2 and schedule_version = $3 and is_enabled and queue = any($5::text[])
  for no key update skip locked
)
update task_job_definitions d set fired_until = $4 from mine where d.name = mine.name returning d.name
