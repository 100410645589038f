-- Marks refused waiters of an exclusive key; a row that somebody has locked is left as it is.
-- $1 ids, $2 jobs known here
-- Returns (id, whether its key is still taken, whether it is marked now): who finds the key free tries again.
with seen as materialized (
  select e.id, exists (
    select from task_executions h where h.exclusive_key = e.exclusive_key and h.claim_token is not null
  ) or exists (
    select from task_executions o
    where o.exclusive_key = e.exclusive_key and o.queue = e.queue and o.claim_token is null and o.finished_at is null
      and (o.run_at, o.id) < (e.run_at, e.id) and o.job = any($2::text[])
  ) as taken
  from task_executions e
  where e.id = any($1::bigint[]) and e.claim_token is null and e.finished_at is null
), locked as materialized (
  select e.id from task_executions e join seen s on s.id = e.id
  where e.id = any($1::bigint[]) and s.taken and e.claim_token is null and e.finished_at is null
  order by e.exclusive_key, e.id for no key update of e skip locked
), marked as (
  update task_executions e set waits_for_key = true
  from locked l where e.id = any($1::bigint[]) and e.id = l.id
  returning e.id
)
select s.id, s.taken, m.id is not null as marked from seen s left join marked m on m.id = s.id
