-- Declares a worker dead, once, under its row lock: from then on it can claim nothing. Its leases end with it.
-- $1 id, $2 the beat at which it was last seen, or null where a lock file proves the death
with dead as (
  update task_workers set dead_at = now()
  where id = $1 and dead_at is null and stopped_at is null and ($2::bigint is null or beat = $2)
  returning id, name
), freed as (
  delete from task_leases l using dead where l.holder = dead.name
)
select id from dead
