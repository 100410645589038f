-- The invariants as queries, at the end: each gives one row for each violation. A name line, then its statement.
-- :: lost: promised and never written
select p.id, 'promised and never inserted' from unnest($1::bigint[]) as p(id)
where not exists (select from chaos.inserted i where i.execution_id = p.id);
-- :: lost: neither there nor removed by retention
select i.execution_id, i.job || ' ' || i.key from chaos.inserted i where $1::bigint[] is not null
and not exists (select from task_executions e where e.id = i.execution_id)
and not exists (select from chaos.deleted d where d.execution_id = i.execution_id);
-- :: stuck: not terminal at the end
select e.id, format('%s is %s, attempt %s, worker %s, run_at %s, check_at %s, waits %s', e.job, e.state, e.attempt, e.worker_id,
  e.run_at, e.check_at, e.waits_for_key)
from task_executions e where $1::bigint[] is not null and e.finished_at is null
and not (e.job = 'taskengine.notify-failure' and e.run_at > now() - interval '5 s');
-- :: an end that nobody settled
select e.id, e.state || ' without a settlement' from task_executions e
where $1::bigint[] is not null and e.state in ('succeeded', 'failed') and e.fence > 0
and not exists (select from chaos.settled s where s.execution_id = e.id and s.fence = e.fence)
and not exists (select from chaos.history h where h.execution_id = e.id and h.move = 'unclaimable');
-- :: claimed and not settled: each claim but the last ends in one settlement
select c.execution_id, format('fence %s of worker %s', c.fence, c.worker_id) from chaos.claims c
where $1::bigint[] is not null
and not exists (select from chaos.settled s where s.execution_id = c.execution_id and s.fence = c.fence)
and not exists (select from chaos.claims d where d.execution_id = c.execution_id and d.fence = c.fence + 1 and d.worker_id = c.worker_id);
-- :: settled without a claim
select s.execution_id, format('fence %s', s.fence) from chaos.settled s where $1::bigint[] is not null
and not exists (select from chaos.claims c where s.execution_id = c.execution_id and s.fence = c.fence);
-- :: succeeded without a body that ended well
select s.execution_id, format('fence %s, body %s', s.fence, b.ended) from chaos.settled s
join chaos.inserted i using (execution_id)
left join chaos.bodies b on b.execution_id = s.execution_id and b.fence = s.fence
where $1::bigint[] is not null and s.state = 'succeeded' and coalesce(b.ended, '') not in ('ok', 'AlreadyProcessed')
and i.job <> 'taskengine.notify-failure'
and not exists (select from chaos.history h where h.execution_id = s.execution_id and h.fence = s.fence and h.move = 'verified');
-- :: succeeded before its body had ended: by the holder of another claim
select s.execution_id, format('fence %s, %s s before', s.fence, b.ended_at - extract(epoch from s.at)) from chaos.settled s
join chaos.bodies b on b.execution_id = s.execution_id and b.fence = s.fence
where $1::bigint[] is not null and s.state = 'succeeded' and extract(epoch from s.at) < b.ended_at
and not exists (select from chaos.history h where h.execution_id = s.execution_id and h.fence = s.fence and h.move = 'verified');
-- :: a body without a claim
select b.execution_id, format('fence %s', b.fence) from chaos.bodies b where $1::bigint[] is not null
and not exists (select from chaos.claims c where b.execution_id = c.execution_id and b.fence = c.fence);
-- :: an attempt used without a body (I6)
select s.execution_id, format('fence %s, attempt %s to %s by %s', s.fence, s.attempt, s.next_attempt, h.move)
from chaos.settled s join chaos.history h on h.execution_id = s.execution_id and h.fence = s.fence and h.attempt = s.attempt
left join chaos.bodies b on b.execution_id = s.execution_id and b.fence = s.fence
where $1::bigint[] is not null and s.next_attempt > s.attempt and h.move <> 'orphaned' and b.fence is null
and h.execution_id not in (select execution_id from chaos.inserted where job = 'taskengine.notify-failure');
-- :: a move with a wrong step of the attempt (I6)
select s.execution_id, format('fence %s: %s, attempt %s to %s', s.fence, h.move, s.attempt, s.next_attempt)
from chaos.settled s join chaos.history h on h.execution_id = s.execution_id and h.fence = s.fence
  and h.attempt = s.attempt and h.move <> 'redriven'
where $1::bigint[] is not null and s.state = 'pending'
and s.next_attempt - s.attempt <> case when h.move in ('retried', 'orphaned') then 1 else 0 end;
-- :: settled but not as succeeded, and nothing in the history
select s.execution_id, format('fence %s: %s', s.fence, s.state) from chaos.settled s
where $1::bigint[] is not null and s.state <> 'succeeded'
and not exists (select from chaos.history h where h.execution_id = s.execution_id and h.fence = s.fence
  and h.move <> 'abort_asked');
-- :: a redrive with a wrong step of the attempt
select r.execution_id, format('fence %s, attempt %s to %s', r.fence, r.attempt, r.next_attempt) from chaos.redriven r
where $1::bigint[] is not null and r.next_attempt - r.attempt not in (0, 1);
-- :: a webhook's effect twice, or none
select e.id, format('%s: %s effects, processed %s, error %s', e.event_id, (select count(*) from chaos.effects f where f.event_id = e.id),
  e.processed_at, e.error)
from webhook_events e where $1::bigint[] is not null
and (e.processed_at is null or (select count(*) from chaos.effects f where f.event_id = e.id) <> 1);
-- :: a fire time left out
select null::bigint, format('%s %s %s', d.name, t.at, s.type_num)
from task_job_definitions d
join lateral (select min(scheduled_for) as first, max(scheduled_for) as last from chaos.inserted where job = d.name) f on true
join lateral generate_series(f.first, f.last, case d.name when 'tick' then interval '5 s' else interval '10 s' end) as t(at) on true
left join stores s on d.scope = 'per_store'
where $1::bigint[] is not null and d.name in ('tick', 'tock')
and not exists (select from chaos.inserted i where i.job = d.name and i.scheduled_for = t.at and i.type_num is not distinct from s.type_num)
and not exists (select from task_schedule_misses m where m.job = d.name and m.fire_time = t.at
  and (m.type_num is null or m.type_num = s.type_num));
-- :: a fire time fired twice
select min(execution_id), format('%s %s %s', job, scheduled_for, type_num) from chaos.inserted
where $1::bigint[] is not null and scheduled_for is not null group by job, scheduled_for, type_num having count(*) > 1;
