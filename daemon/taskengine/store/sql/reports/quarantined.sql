-- How many executions of each queue failed because nobody can know whether they were done: left to a person.
-- $1 seconds back, $2 limit of failed ones to look at, the newest first
select f.queue as name, count(*) as waiting from (
  select id, queue from task_executions
  where state = 'failed' and emptied_at is null and finished_at > now() - $1 * interval '1 s'
  order by finished_at desc limit $2
) as f, lateral (
  select move, reason from task_attempts where execution_id = f.id order by id desc limit 1
) as last
where last.move in ('orphaned', 'interrupted') or last.reason in ('unverified', 'unanswered')
group by f.queue
