-- Running rows past their deadline for so long that their worker should have settled them.
-- $1 seconds, $2 limit
select id from task_executions
where state = 'running' and deadline_at < now() - $1 * interval '1 s'
order by id limit $2
