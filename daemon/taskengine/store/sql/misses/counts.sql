-- How many fire times of each job did not run since then.
-- $1 since
select job, count(*) as missed from task_schedule_misses where recorded_at >= $1 group by job
