-- Marks a definition as one to be skipped, with the reason, or clears the mark; a row back if that changed anything.
-- $1 name, $2 error or null
update task_job_definitions set error = $2 where name = $1 and error is distinct from $2::text returning name
