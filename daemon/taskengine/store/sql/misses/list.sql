-- Fire times that did not run, the newest first.
-- $1 a job or null, $2 limit
select id, job, type_num, fire_time, reason, execution_id, recorded_at
from task_schedule_misses where $1::text is null or job = $1
order by id desc limit $2
