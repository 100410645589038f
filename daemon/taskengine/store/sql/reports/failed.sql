-- Failed executions that can run again, those that failed first first.
-- $1 a job or null, $2 limit
select id from task_executions
where state = 'failed' and emptied_at is null and ($1::text is null or job = $1)
order by finished_at, id limit $2
