-- Four roles for the engine, each with what it needs. Run once, as a superuser, in the engine's own database:
--
--   createdb taskengine && psql -d taskengine -v ON_ERROR_STOP=1 -f roles.sql
--   then `taskengine migrate up` as taskengine_owner, then, as the same, psql -f grants.sql
--
-- Running it again changes nothing. The roles have no password: give them one (\password), or let pg_hba.conf and
-- pg_ident.conf name the system's users. The schema is called taskengine, as in config.toml ([postgres] schema).

do $$
declare
  wanted text;
begin
  foreach wanted in array array['taskengine_owner', 'taskengine_runtime', 'taskengine_dispatch', 'taskengine_readonly'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      execute format('create role %I login nosuperuser nocreatedb nocreaterole noreplication nobypassrls', wanted);
    end if;
  end loop;
  -- Nobody else gets in, and nobody makes tables but the owner, who migrates.
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to taskengine_owner, taskengine_runtime, taskengine_dispatch, taskengine_readonly',
    current_database());
end $$;

revoke create on schema public from public;
create schema if not exists taskengine authorization taskengine_owner;
-- `taskengine migrate up` says "create schema if not exists", for which Postgres asks for the right whether it exists or not.
do $$ begin execute format('grant create on database %I to taskengine_owner', current_database()); end $$;

revoke all on schema taskengine from public;
grant usage on schema taskengine to taskengine_runtime, taskengine_dispatch, taskengine_readonly;

-- What a later migration makes is the daemon's to use at once: a rolling upgrade does not wait for grants.sql.
alter default privileges for role taskengine_owner in schema taskengine
  grant select, insert, update, delete on tables to taskengine_runtime;

-- Slips do not become outages: what only looks or only dispatches ends soon. (The daemon sets its own time-outs.)
-- The read-only role is so by its rights alone: by default_transaction_read_only `doctor` would see a server that takes no writes.
alter role taskengine_readonly set statement_timeout = '60s';
alter role taskengine_dispatch set statement_timeout = '60s';
