-- Moves fired_until of definitions that had nothing to fire, each only from the value and the version read.
-- $1 names, $2 fired_until read, $3 versions read: arrays, $4 fired_until to be
with mine as materialized (
  select d.name from task_job_definitions d
  join unnest($1::text[], $2::timestamptz[], $3::bigint[]) as u(name, fired_until, version)
    on d.name = u.name and d.fired_until = u.fired_until and d.schedule_version = u.version
  where d.is_enabled
  order by d.name for no key update of d skip locked
)
update task_job_definitions d set fired_until = $4 from mine where d.name = mine.name
