-- The engine's tables as autovacuum sees them; one that was never vacuumed counts from the day the schema was made.
select s.relname as name, s.n_live_tup as live, s.n_dead_tup as dead,
  extract(epoch from now() - coalesce(
    greatest(s.last_autovacuum, s.last_vacuum), (select min(applied_at) from schema_migrations), now()))::float8 as vacuumed,
  coalesce('autovacuum_enabled=false' = any(t.reloptions) or 'autovacuum_enabled=off' = any(t.reloptions), false) as switched_off
from pg_stat_user_tables s join pg_class t on t.oid = s.relid
where s.schemaname = current_schema() and s.relname in ('task_executions', 'task_attempts', 'task_workers', 'webhook_events')
order by s.relname
