-- Declares a worker dead, once, under its row lock: from then on it can claim nothing.
-- $1 id, $2 the beat at which it was last seen, or null where a lock file proves the death
update task_workers set dead_at = now()
where id = $1 and dead_at is null and stopped_at is null and ($2::bigint is null or beat = $2)
returning id
