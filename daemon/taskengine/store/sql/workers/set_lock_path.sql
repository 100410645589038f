-- Where this worker's lock file lies; written once the lock is held.
-- $1 id, $2 path
update task_workers set lock_path = $2 where id = $1
