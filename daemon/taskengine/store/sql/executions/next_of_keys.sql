-- Whose turn is next: the oldest due row of each exclusive key in each queue, held or not, marked or not.
-- $1 keys, $2 the listed queues, $3 jobs to choose from, or null: all
select n.id, n.queue, (extract(epoch from n.run_at) * 1000000)::bigint as score
from unnest($1::text[]) as k(key), unnest($2::text[]) as q(name), lateral (
  select e.id, e.queue, e.run_at from task_executions e
  where e.exclusive_key = k.key and e.queue = q.name and e.claim_token is null and e.finished_at is null and e.run_at <= now()
    and ($3::text[] is null or e.job = any($3::text[]))
  order by e.run_at, e.id limit 1
) as n
order by k.key, n.run_at, n.id
