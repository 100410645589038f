-- The lines in front of direct mode: how many rows are due in each of these queues, and how many of them come before this row.
-- $1 queues, $2 run_at, $3 id, $4 rows counted at the most
select q.name,
  (select count(*) from (
    select from task_executions e
    where e.queue = q.name and e.claim_token is null and e.finished_at is null and not e.waits_for_key and e.run_at <= now()
    limit $4) as due) as due,
  (select count(*) from (
    select from task_executions e
    where e.queue = q.name and e.claim_token is null and e.finished_at is null and not e.waits_for_key
      and (e.run_at, e.id) < ($2::timestamptz, $3::bigint)
    limit $4) as older) as older
from unnest($1::text[]) as q(name)
