-- Inserts the definitions that are missing, from the classes; a row that is there is never touched.
-- $1 a JSON array of settings with `name`, $2 now or null
insert into task_job_definitions (
  name, display_name, queue, scope, schedule, schedule_seconds, time_zone, missed, missed_grace, when_held,
  timeout, max_attempts, retry_backoff, max_orphanings, max_interruptions, on_interrupt, max_payload_bytes,
  max_result_bytes, config, is_enabled, notify_on_failure, notify_sms, fired_until)
select n.name, n.display_name, n.queue, n.scope, n.schedule, n.schedule_seconds, n.time_zone, n.missed,
  n.missed_grace, n.when_held, n.timeout, n.max_attempts, n.retry_backoff, n.max_orphanings, n.max_interruptions,
  n.on_interrupt, n.max_payload_bytes, n.max_result_bytes, n.config, n.is_enabled, n.notify_on_failure, n.notify_sms,
  coalesce($2::timestamptz, now())
from jsonb_populate_recordset(null::task_job_definitions, $1::jsonb) n
order by n.name
on conflict (name) do nothing
returning name
