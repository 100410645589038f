-- Every worker that should be beating.
select id, name, host, pid, boot_id, lock_path, beat, version, queues, jobs, slots, draining, loops,
  started_at, last_beat_at
from task_workers where stopped_at is null and dead_at is null order by id
