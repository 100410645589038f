-- Records fire times that do not run. Where a key is given and its execution was made for this fire time, or is
-- well, the fire time was not missed.
-- $1 job, $2 type_num, $3 fire_time, $4 reason, $5 execution_id, $6 key or null: arrays
insert into task_schedule_misses (job, type_num, fire_time, reason, execution_id)
select $1, u.type_num, u.fire_time, u.reason, u.execution_id
from unnest($2::text[], $3::timestamptz[], $4::text[], $5::bigint[], $6::text[])
  as u(type_num, fire_time, reason, execution_id, key)
where not exists (
  select from task_executions e
  where e.job = $1 and e.idempotency_key = u.key
    and (e.scheduled_for = u.fire_time or e.state not in ('failed', 'cancelled')))
order by u.fire_time, u.type_num nulls first
on conflict do nothing
returning id
