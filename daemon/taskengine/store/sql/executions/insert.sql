-- Inserts pending executions in the order of (job, key); what is refused or there already is not returned.
-- $1 job, $2 key, $3 type_num, $4 subject, $5 payload, $6 run_at or null, $7 delay s, $8 key drawn, $9 scheduled_for: arrays
-- $10 the listed queues, $11 lock_timeout, $12 check after s, $13 queues that rule over the jobs' own, or null: array; $14 exclusive keys, or null: array
with bound as materialized (select set_config('lock_timeout', $11, true))
insert into task_executions (
  job, queue, idempotency_key, type_num, subject, payload, run_at, check_at, key_is_drawn, scheduled_for,
  exclusive_key)
select u.job, coalesce(u.queue, d.queue), u.key, u.type_num, u.subject, u.payload::jsonb,
  coalesce(u.run_at, now() + u.delay * interval '1 s'),
  greatest(now(), coalesce(u.run_at, now() + u.delay * interval '1 s')) + $12 * interval '1 s',
  u.drawn, u.scheduled_for, u.exclusive
from bound, unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[],
    $7::float8[], $8::boolean[], $9::timestamptz[], $13::text[], $14::text[]) with ordinality
  as u(job, key, type_num, subject, payload, run_at, delay, drawn, scheduled_for, queue, exclusive, ord)
join task_job_definitions d on d.name = u.job
where d.is_enabled and coalesce(u.queue, d.queue) = any($10::text[])
  and octet_length(u.payload) <= d.max_payload_bytes
  and (d.scope = 'per_store') = (u.type_num is not null)
  and (u.type_num is null or exists (select from stores s where s.type_num = u.type_num and s.is_active))
order by u.ord
on conflict (job, idempotency_key) do nothing
returning id, job, idempotency_key as key, queue,
  (extract(epoch from run_at) * 1000000)::bigint as score, run_at <= now() as due
