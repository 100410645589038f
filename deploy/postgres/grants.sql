-- Who may do what with the engine's tables. Run as taskengine_owner after `taskengine migrate up`, and after each
-- upgrade that brought a migration. Running it again changes nothing.

set search_path = taskengine;

revoke all on all tables in schema taskengine from public, taskengine_runtime, taskengine_dispatch, taskengine_readonly;

-- The daemon, and operators who change things: all rows, no table.
grant select, insert, update, delete on all tables in schema taskengine to taskengine_runtime;
revoke insert, update, delete on schema_migrations from taskengine_runtime;
revoke insert, delete on task_engine from taskengine_runtime;

-- A program that only dispatches and asks what became of it: it can neither run, change nor remove an execution, and it
-- says nothing about an execution but what a dispatch says (its state, attempt and claim are the engine's to write).
grant select on schema_migrations, task_engine, task_job_definitions, task_queues, task_executions, task_attempts,
  task_execution_logs to taskengine_dispatch;
grant insert (job, queue, idempotency_key, type_num, subject, payload, run_at, check_at, key_is_drawn, scheduled_for,
  exclusive_key) on task_executions to taskengine_dispatch;
grant select (id, name, host, queues, jobs, slots, draining, started_at, last_beat_at, stopped_at, dead_at)
  on task_workers to taskengine_dispatch;

-- Looking: all that `status`, `why`, `doctor` and the lists read.
grant select on all tables in schema taskengine to taskengine_readonly;
revoke select on stores from taskengine_readonly;

-- A store's DSN is a secret: only the daemon, which connects with it, reads that column.
grant select (type_num, name, time_zone, is_active, created_at, closed_at) on stores
  to taskengine_dispatch, taskengine_readonly;
