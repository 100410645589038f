-- What is seen from outside: triggers keep one row for each claim, each settlement, each deletion. Nothing of it is
-- the engine's. A move that must not happen is kept as a violation and refused by nobody: the engine goes on as it is.
create schema chaos;

create table chaos.violations (
  id bigint generated always as identity primary key,
  kind text not null, execution_id bigint, detail text not null, at timestamptz not null default clock_timestamp()
);

create table chaos.inserted (
  execution_id bigint primary key, job text not null, key text not null, type_num text, scheduled_for timestamptz,
  at timestamptz not null default now(), unique (job, key)
);
create table chaos.claims (
  execution_id bigint, fence bigint, attempt integer not null, worker_id bigint, at timestamptz not null default now(),
  primary key (execution_id, fence)
);
create table chaos.settled (
  execution_id bigint, fence bigint, attempt integer not null, next_attempt integer not null, state text not null,
  worker_id bigint, at timestamptz not null default now(), primary key (execution_id, fence)
);
create table chaos.succeeded (execution_id bigint primary key);
create table chaos.redriven (execution_id bigint, fence bigint, attempt integer not null, next_attempt integer not null);
create table chaos.deleted (execution_id bigint primary key, state text not null, at timestamptz not null default now());
create table chaos.history (
  execution_id bigint, attempt integer, fence bigint, move text, reason text, worker_id bigint,
  at timestamptz not null default now()
);
create index on chaos.history (execution_id, fence);

-- What the bodies wrote: one row for each body begun. `ended`: ok, or the name of the exception; null: it never ended.
create table chaos.bodies (
  execution_id bigint, fence bigint, attempt integer not null, worker text not null, ended text,
  ended_at double precision, primary key (execution_id, fence)
);
-- What webhook jobs did inside their event's transaction.
create table chaos.effects (event_id bigint, execution_id bigint);

create function chaos.wrong(kind text, execution_id bigint, detail text) returns void language sql as
$$ insert into chaos.violations (kind, execution_id, detail) values (kind, execution_id, detail) $$;

create function chaos.see_insert() returns trigger language plpgsql as $$
begin
  insert into chaos.inserted values (new.id, new.job, new.idempotency_key, new.type_num, new.scheduled_for)
  on conflict (job, key) do update set at = now();
  if not exists (select from chaos.inserted where execution_id = new.id) then
    perform chaos.wrong('a second row for a key', new.id, new.job || ' ' || new.idempotency_key);
  end if;
  return null;
end $$;

create function chaos.see_claim(old task_executions, new task_executions) returns void language plpgsql as $$
declare other bigint;
begin
  if old.state = 'running' and old.claim_token is distinct from new.claim_token then
    perform chaos.wrong('claimed while running', new.id, format('fence %s, worker %s', old.fence, old.worker_id));
  end if;
  if new.fence <> old.fence + 1 or new.attempt <> old.attempt then
    perform chaos.wrong('claim with a wrong fence or attempt', new.id, format('%s to %s', old.fence, new.fence));
  end if;
  perform from task_workers w where w.id = new.worker_id and w.dead_at is null;
  if not found then
    perform chaos.wrong('claimed by a dead worker', new.id, format('worker %s', new.worker_id));
  end if;
  if new.exclusive_key is not null then
    select e.id into other from task_executions e
    where e.exclusive_key = new.exclusive_key and e.state = 'running' and e.id <> new.id;
    if other is not null then
      perform chaos.wrong('an exclusive key held twice', new.id, format('%s, also by %s', new.exclusive_key, other));
    end if;
  end if;
  insert into chaos.claims values (new.id, new.fence, new.attempt, new.worker_id) on conflict do nothing;
  if not found then
    perform chaos.wrong('one fence claimed twice', new.id, format('fence %s', new.fence));
  end if;
end $$;

create function chaos.see_settlement(old task_executions, new task_executions) returns void language plpgsql as $$
begin
  insert into chaos.settled values (old.id, old.fence, old.attempt, new.attempt, new.state, old.worker_id) on conflict do nothing;
  if not found then
    perform chaos.wrong('one claim settled twice', old.id, format('fence %s, now %s', old.fence, new.state));
  end if;
  if new.state = 'succeeded' then
    insert into chaos.succeeded values (old.id) on conflict do nothing;
    if not found then
      perform chaos.wrong('succeeded twice', old.id, format('fence %s', old.fence));
    end if;
  end if;
end $$;

create function chaos.see_move() returns trigger language plpgsql as $$
begin
  if new.state = 'running' then
    perform chaos.see_claim(old, new);
  elsif old.state = 'running' then
    perform chaos.see_settlement(old, new);
  elsif old.finished_at is not null and new.finished_at is not null then
    perform chaos.wrong('settled after its end', old.id, old.state || ', then ' || new.state);
  elsif old.finished_at is not null then
    insert into chaos.redriven values (old.id, old.fence, old.attempt, new.attempt);
    if old.state = 'succeeded' or new.state <> 'pending' then
      perform chaos.wrong('left a terminal state', old.id, old.state || ' to ' || new.state);
    end if;
  elsif new.state = 'succeeded' then
    perform chaos.wrong('succeeded without a claim', old.id, '');
  end if;
  return null;
end $$;

create function chaos.see_delete() returns trigger language plpgsql as $$
begin
  insert into chaos.deleted values (old.id, old.state);
  if old.finished_at is null or old.finished_at > now() - interval '50 s' then
    perform chaos.wrong('deleted too early', old.id, old.state);
  end if;
  return null;
end $$;

create function chaos.see_history() returns trigger language plpgsql as $$
begin
  insert into chaos.history values (new.execution_id, new.attempt, new.fence, new.move, new.reason, new.worker_id);
  return null;
end $$;

create trigger chaos_insert after insert on task_executions for each row execute function chaos.see_insert();
create trigger chaos_move after update on task_executions for each row
  when (old.state <> new.state or old.fence <> new.fence
    or (old.finished_at is not null and new.finished_at is distinct from old.finished_at))
  execute function chaos.see_move();
create trigger chaos_delete after delete on task_executions for each row execute function chaos.see_delete();
create trigger chaos_history after insert on task_attempts for each row execute function chaos.see_history();
