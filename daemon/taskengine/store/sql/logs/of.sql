-- An execution's own log, oldest first.
-- $1 execution id, $2 limit
select attempt, at, level, message, fields::text from task_execution_logs where execution_id = $1 order by id limit $2
