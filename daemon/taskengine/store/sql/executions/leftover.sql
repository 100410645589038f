-- Why reserved ids were not claimed.
-- $1 ids, $2 jobs known here
select i.id, e.id is null or e.claim_token is not null or e.finished_at is not null as settled,
  e.queue, (extract(epoch from e.run_at) * 1000000)::bigint as score, e.run_at > now() as early,
  e.job = any($2::text[]) as known, q.paused_at is not null as paused,
  e.orphanings, e.exclusive_key, e.job
from unnest($1::bigint[]) as i(id)
left join task_executions e on e.id = i.id
left join task_queues q on q.name = e.queue
