-- The engine's tables. The hot ones (executions, workers) are written so that claim and settle have one possible
-- path, the primary key: no index below covers what those statements ask for (task_executions_due is direct mode's own).

create table task_engine (
  only_row boolean primary key default true check (only_row),
  identity uuid not null default gen_random_uuid(),
  generation bigint not null default 0
);
comment on table task_engine is 'Who this database is: Redis carries the same identity and the generation of its last rebuild.';
insert into task_engine default values;

create table stores (
  type_num text primary key check (octet_length(type_num) between 1 and 50),
  name text not null,
  time_zone text not null default 'UTC',
  is_active boolean not null default true,
  dsn text,
  created_at timestamptz not null default now(),
  closed_at timestamptz
);

create table task_job_definitions (
  name text primary key check (octet_length(name) between 1 and 100),
  display_name text not null,
  queue text not null,
  scope text not null default 'global' check (scope in ('global', 'per_store')),
  schedule text,
  schedule_seconds boolean not null default false,
  time_zone text not null default 'UTC',
  missed text not null default 'latest' check (missed in ('skip', 'latest', 'all')),
  missed_grace integer not null default 86400 check (missed_grace between 0 and 31536000),
  when_held text not null default 'record' check (when_held in ('record', 'redrive')),
  timeout integer not null default 300 check (timeout between 1 and 604800),
  max_attempts integer not null default 3 check (max_attempts between 0 and 1000),
  retry_backoff integer not null default 60 check (retry_backoff between 0 and 3600),
  max_orphanings integer not null default 3 check (max_orphanings between 1 and 100),
  max_interruptions integer not null default 20 check (max_interruptions between 1 and 1000),
  on_interrupt text not null default 'retry' check (on_interrupt in ('retry', 'fail', 'verify')),
  max_payload_bytes integer not null default 262144 check (max_payload_bytes between 1 and 16777216),
  max_result_bytes integer not null default 65536 check (max_result_bytes between 1 and 16777216),
  config jsonb not null default '{}' check (jsonb_typeof(config) = 'object'),
  is_enabled boolean not null default true,
  notify_on_failure boolean not null default true,
  notify_sms boolean not null default false,
  schedule_version bigint not null default 1,
  fired_until timestamptz not null default now(),
  error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on column task_job_definitions.error is 'Why the definition is skipped: a queue that is not listed, a schedule that cannot be evaluated.';
comment on column task_job_definitions.fired_until is 'Fire times up to here are decided; it moves only from the value and the schedule_version read.';

create table task_workers (
  id bigint generated always as identity primary key,
  name text not null,
  host text not null,
  pid integer not null,
  boot_id text not null,
  lock_path text,
  version text not null,
  queues text[] not null,
  jobs text[] not null,
  slots integer not null,
  beat bigint not null default 0,
  held_over_time bigint[] not null default '{}',
  loops jsonb not null default '{}',
  draining boolean not null default false,
  started_at timestamptz not null default now(),
  last_beat_at timestamptz not null default now(),
  stopped_at timestamptz,
  dead_at timestamptz
);
create index task_workers_living on task_workers (id) where stopped_at is null and dead_at is null;
comment on column task_workers.dead_at is 'Set once, under a row lock: a dead worker can claim nothing.';

create table task_executions (
  id bigint generated always as identity primary key,
  fence bigint not null default 0,
  claim_token bigint,
  worker_id bigint,
  run_at timestamptz not null default now(),
  check_at timestamptz not null default now() + interval '15 s',
  claimed_at timestamptz,
  deadline_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  abort_requested_at timestamptz,
  failure_reported_at timestamptz,
  emptied_at timestamptz,
  scheduled_for timestamptz,
  attempt integer not null default 1 check (attempt >= 1),
  orphanings integer not null default 0,
  interruptions integer not null default 0,
  progress smallint,
  verify_next boolean not null default false,
  waits_for_key boolean not null default false,
  key_is_drawn boolean not null default false,
  state text not null default 'pending'
    check (state in ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
  job text not null,
  queue text not null,
  idempotency_key text not null check (octet_length(idempotency_key) between 1 and 255),
  type_num text,
  subject text,
  exclusive_key text check (octet_length(exclusive_key) between 1 and 255),
  payload jsonb,
  cursor jsonb,
  result jsonb,
  result_error text,
  last_error text,
  progress_message text,
  constraint task_executions_token_means_running
    check ((claim_token is not null) = (state = 'running')),
  constraint task_executions_finished_means_terminal
    check ((finished_at is not null) = (state in ('succeeded', 'failed', 'cancelled'))),
  constraint task_executions_waiters_are_pending check (not waits_for_key or state = 'pending')
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create unique index task_executions_key on task_executions (job, idempotency_key);
create index task_executions_check on task_executions (check_at) where state = 'pending';
create index task_executions_due on task_executions (queue, run_at, id)
  where claim_token is null and finished_at is null and not waits_for_key;
comment on index task_executions_due is 'Direct mode. Pending, said otherwise than by the state: so that no other index leads there.';
create index task_executions_worker on task_executions (worker_id) where state = 'running';
create index task_executions_ended on task_executions (finished_at)
  where finished_at is not null and emptied_at is null;
create index task_executions_emptied on task_executions (finished_at) where emptied_at is not null;
create index task_executions_unwell on task_executions (finished_at) where state in ('failed', 'cancelled');
create index task_executions_subject on task_executions (subject)
  where subject is not null and state in ('pending', 'running');
create unique index task_executions_exclusive on task_executions (exclusive_key)
  where exclusive_key is not null and claim_token is not null;
create index task_executions_waiters on task_executions (exclusive_key, queue, run_at, id)
  where exclusive_key is not null and claim_token is null and finished_at is null;
create index task_executions_marked on task_executions (exclusive_key) where waits_for_key;
comment on index task_executions_exclusive is 'Running, said otherwise than by the state, as pending below: no other index leads there.';
comment on column task_executions.key_is_drawn is 'The engine drew or built the key: retention may delete the whole row.';
comment on column task_executions.fence is 'Counts claims; grows with each one, so it can fence effects outside.';

create table task_attempts (
  id bigint generated always as identity primary key,
  execution_id bigint not null references task_executions (id) on delete cascade,
  attempt integer not null,
  fence bigint not null,
  move text not null check (move in (
    'retried', 'failed', 'discarded', 'snoozed', 'released', 'interrupted', 'orphaned', 'cancelled', 'redriven', 'unclaimable', 'verified',
    'abort_asked')),
  reason text not null,
  by text not null,
  error text,
  traceback text,
  worker_id bigint,
  started_at timestamptz,
  ended_at timestamptz not null default now()
);
create index task_attempts_execution on task_attempts (execution_id, id);
comment on table task_attempts is 'What did not succeed, and what operators did: who, when, why. A success is in the execution itself.';

create table task_execution_logs (
  id bigint generated always as identity primary key,
  execution_id bigint not null,
  attempt integer not null,
  at timestamptz not null,
  level text not null,
  message text not null,
  fields jsonb
);
create index task_execution_logs_execution on task_execution_logs (execution_id, id);

create table task_queues (
  name text primary key,
  paused_at timestamptz,
  paused_by text,
  pause_reason text
);

create table task_schedule_misses (
  id bigint generated always as identity primary key,
  job text not null,
  type_num text,
  fire_time timestamptz not null,
  reason text not null,
  execution_id bigint,
  recorded_at timestamptz not null default now()
);
create unique index task_schedule_misses_once
  on task_schedule_misses (job, fire_time, coalesce(type_num, ''));

create table task_leases (
  name text primary key,
  holder text not null,
  token bigint not null,
  expires_at timestamptz not null
);

create table webhook_events (
  id bigint generated always as identity primary key,
  source text not null,
  event_id text not null check (octet_length(event_id) between 1 and 255),
  type text,
  status text not null check (status in ('received', 'ignored', 'invalid')),
  body bytea,
  body_sha256 bytea not null,
  headers jsonb not null default '{}',
  occurred_at timestamptz,
  received_at timestamptz not null default now(),
  touched_at timestamptz not null default now(),
  recover_at timestamptz not null default now(),
  recoveries integer not null default 0,
  processed_at timestamptz,
  error text
);
create unique index webhook_events_once on webhook_events (source, event_id);
create index webhook_events_unprocessed on webhook_events (recover_at)
  where status = 'received' and processed_at is null and error is null;
create index webhook_events_received on webhook_events (received_at);
comment on column webhook_events.recover_at is 'The reconciler looks at the event from then on; it is moved, doubling, before each dispatch.';
