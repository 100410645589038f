-- Definitions in the order of their names.
-- $1 a name or null, $2 only the scheduled and enabled ones
select name, display_name, queue, scope, schedule, schedule_seconds, time_zone, missed, missed_grace, when_held,
  timeout, max_attempts, retry_backoff, max_orphanings, max_interruptions, on_interrupt, max_payload_bytes,
  max_result_bytes, config::text as config, is_enabled, notify_on_failure, notify_sms,
  schedule_version, fired_until, error
from task_job_definitions
where ($1::text is null or name = $1) and (not $2::boolean or (schedule is not null and is_enabled))
order by name
