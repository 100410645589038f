-- Pauses a queue.
-- $1 name, $2 by whom, $3 why
insert into task_queues (name, paused_at, paused_by, pause_reason) values ($1, now(), $2, $3)
on conflict (name) do update set paused_at = coalesce(task_queues.paused_at, now()), paused_by = $2, pause_reason = $3
