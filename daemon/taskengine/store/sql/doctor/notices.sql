-- Notices that failed within the last while, or are due and not run.
-- $1 the notices' job, $2 seconds back, $3 seconds within which a notice may wait
select id, state, last_error from task_executions
where job = $1 and state = 'failed' and finished_at > now() - $2 * interval '1 s'
union all
select id, state, last_error from task_executions
where job = $1 and state = 'pending' and run_at < now() - $3 * interval '1 s'
order by id
