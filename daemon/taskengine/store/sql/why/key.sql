-- Who stands before a waiter of an exclusive key: the row that holds it, and the older waiters of the same queue.
-- $1 key, $2 queue, $3 run_at, $4 id, $5 older ones counted at the most
select h.id, h.job, h.claimed_at, w.name,
  (select o.id from task_executions o
    where o.exclusive_key = $1 and o.queue = $2 and o.claim_token is null and o.finished_at is null and (o.run_at, o.id) < ($3::timestamptz, $4::bigint)
    order by o.run_at, o.id limit 1) as oldest,
  (select count(*) from (
    select from task_executions o
    where o.exclusive_key = $1 and o.queue = $2 and o.claim_token is null and o.finished_at is null and (o.run_at, o.id) < ($3::timestamptz, $4::bigint)
    limit $5) as older) as older
from (select) as always
left join task_executions h on h.exclusive_key = $1 and h.claim_token is not null
left join task_workers w on w.id = h.worker_id
