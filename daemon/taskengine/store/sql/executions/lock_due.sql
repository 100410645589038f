-- Direct mode: due rows that may be claimed here, the first queue's first, in the order of their time; locked.
-- $1 queues in their order, $2 how many of each, $3 run_at and $4 id to go on from (null: from the start): arrays;
-- $5 limit, $6 jobs known here, $7 whether rows orphaned once may be taken, $8 and more often
-- One possible path, task_executions_due: the rows of a queue come from it one after another until the limit is reached, so
-- nothing is sorted and only what is returned is locked. That is why it does not say state = 'pending': see the README.
-- Marked waiters have a statement of their own (next_of_free_keys).
select e.id, e.queue, e.run_at, (extract(epoch from e.run_at) * 1000000)::bigint as score
from unnest($1::text[], $2::int[], $3::timestamptz[], $4::bigint[]) as q(name, most, run_at, id),
  lateral (
    select d.id, d.queue, d.run_at from task_executions d
    where d.claim_token is null and d.finished_at is null and not d.waits_for_key
      and d.queue = q.name and d.run_at <= now()
      and (d.run_at, d.id) > (coalesce(q.run_at, '-infinity'), coalesce(q.id, 0))
      and d.job || '' = any($6::text[])
      and (d.orphanings = 0 or case when d.orphanings = 1 then $7::boolean else $8::boolean end)
      and not exists (select from task_queues p where p.name = q.name and p.paused_at is not null)
    order by d.run_at, d.id limit q.most for no key update of d skip locked
  ) as e
limit $5
