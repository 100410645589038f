-- One beat; no row back means that this worker was declared dead. The answer carries the database's clock.
-- $1 id, $2 ids held past their deadline, $3 loops, $4 draining
update task_workers
set beat = beat + 1, last_beat_at = now(), held_over_time = $2, loops = $3::jsonb, draining = $4
where id = $1 and dead_at is null
returning beat, clock_timestamp() as now
