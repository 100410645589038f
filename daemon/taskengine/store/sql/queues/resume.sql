-- Resumes a queue; no row back means that it was not paused.
-- $1 name
update task_queues set paused_at = null, paused_by = null, pause_reason = null
where name = $1 and paused_at is not null returning name
