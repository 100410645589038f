-- Changes the settings that are given. A changed schedule, and enabling, begin anew: nothing before now fires.
-- $1 name, $2 the settings as a JSON object, $3 now or null
update task_job_definitions d
set (display_name, queue, scope, schedule, schedule_seconds, time_zone, missed, missed_grace, when_held, timeout,
  max_attempts, retry_backoff, max_orphanings, max_interruptions, on_interrupt, max_payload_bytes, max_result_bytes,
  config, is_enabled, notify_on_failure, notify_sms, schedule_version, fired_until, updated_at) = (
  select n.display_name, n.queue, n.scope, n.schedule, n.schedule_seconds, n.time_zone, n.missed, n.missed_grace,
    n.when_held, n.timeout, n.max_attempts, n.retry_backoff, n.max_orphanings, n.max_interruptions, n.on_interrupt,
    n.max_payload_bytes, n.max_result_bytes, n.config, n.is_enabled, n.notify_on_failure, n.notify_sms,
    d.schedule_version + r.anew::int, case when r.anew then coalesce($3::timestamptz, now()) else d.fired_until end, now()
  from jsonb_populate_record(d, $2::jsonb) n,
    lateral (select (n.schedule, n.schedule_seconds, n.time_zone, n.scope)
        is distinct from (d.schedule, d.schedule_seconds, d.time_zone, d.scope)
      or (n.is_enabled and not d.is_enabled) as anew) r)
where d.name = $1
