-- What stands behind dispatches that inserted nothing: the execution of the key, or why the door refused.
-- $1 job, $2 key, $3 type_num: arrays
select u.ord::int as ord, d.name is not null as job_known, d.is_enabled, d.queue as job_queue, d.scope,
  d.max_payload_bytes, s.type_num is not null as store_known,
  e.id, e.state, e.queue, (extract(epoch from e.run_at) * 1000000)::bigint as score, e.run_at <= now() as due,
  case when d.name is null then (select array_agg(name) from task_job_definitions) end as known_jobs,
  case when u.type_num is not null and s.type_num is null
    then (select array_agg(active.type_num) from stores active where active.is_active) end as known_stores
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as u(job, key, type_num, ord)
left join task_job_definitions d on d.name = u.job
left join stores s on s.type_num = u.type_num and s.is_active
left join task_executions e on e.job = u.job and e.idempotency_key = u.key
order by u.ord
