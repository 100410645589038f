-- Paused queues: by whom, since when, why.
select name, paused_at, paused_by, pause_reason from task_queues where paused_at is not null order by name
