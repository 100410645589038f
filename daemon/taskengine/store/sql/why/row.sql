-- One execution with what stands around it: its definition, its worker, its queue's pause, its webhook event.
-- $1 id
select now() as at, e.id, e.job, e.queue, e.idempotency_key, e.key_is_drawn, e.type_num, e.subject, e.exclusive_key,
  e.state, e.attempt, e.fence, e.orphanings, e.interruptions, e.verify_next, e.waits_for_key,
  e.run_at, e.check_at, e.created_at, e.claimed_at, e.deadline_at, e.finished_at, e.scheduled_for, e.abort_requested_at,
  e.emptied_at, e.progress, e.progress_message, left(e.result_error, 2000), left(e.last_error, 2000),
  w.name, w.last_beat_at, w.dead_at, w.stopped_at, e.id = any(w.held_over_time),
  d.name is not null, d.is_enabled, d.error, d.timeout, d.max_attempts, d.max_orphanings, d.max_interruptions, d.on_interrupt,
  q.paused_at, q.paused_by, q.pause_reason, v.source, v.event_id, v.type
from task_executions e
left join task_workers w on w.id = e.worker_id
left join task_job_definitions d on d.name = e.job
left join task_queues q on q.name = e.queue
left join webhook_events v on v.id = case when e.subject ~ '^webhook:[1-9][0-9]{0,17}$' then substr(e.subject, 9)::bigint end
where e.id = $1
