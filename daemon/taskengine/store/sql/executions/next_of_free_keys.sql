-- The sweep's turn for exclusive keys that have marked waiters and no holder: the oldest due row of each in each queue.
-- $1 the listed queues, $2 limit of keys, $3 jobs to choose from, or null: all, $4 after this key
-- Only keys that have one to choose count: waiters of other queues and jobs hide nobody's key behind theirs.
-- The keys are found one by one through their own index: a thousand waiters of one key cost as much as one.
with recursive marked as (
  (select exclusive_key as key from task_executions
    where waits_for_key and exclusive_key > $4 order by exclusive_key limit 1)
  union all
  select (select e.exclusive_key from task_executions e
    where e.waits_for_key and e.exclusive_key > marked.key order by e.exclusive_key limit 1)
  from marked where marked.key is not null
), free as materialized (
  select m.key from marked m
  where m.key is not null
    and exists (
      select from unnest($1::text[]) as q(name), lateral (
        select from task_executions e
        where e.exclusive_key = m.key and e.queue = q.name and e.claim_token is null and e.finished_at is null and e.run_at <= now()
          and ($3::text[] is null or e.job = any($3::text[]))
        limit 1) as one)
    and (select h.id from task_executions h where h.exclusive_key = m.key and h.claim_token is not null limit 1) is null
  limit $2
)
select n.id, n.queue, (extract(epoch from n.run_at) * 1000000)::bigint as score, free.key
from free, unnest($1::text[]) as q(name), lateral (
  select e.id, e.queue, e.run_at from task_executions e
  where e.exclusive_key = free.key and e.queue = q.name and e.claim_token is null and e.finished_at is null and e.run_at <= now()
    and ($3::text[] is null or e.job = any($3::text[]))
  order by e.run_at, e.id limit 1
) as n
order by free.key
