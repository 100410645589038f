-- What the definitions of these jobs say about whether they take a dispatch; one that is missing is not returned.
-- $1 job names
select name, queue, scope, is_enabled from task_job_definitions where name = any($1::text[])
