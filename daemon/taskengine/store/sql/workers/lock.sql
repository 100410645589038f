-- Locks a worker's row against its claims (which take it `for key share`). No row where somebody holds
-- it: one dead worker whose row is locked holds up the burial of no other.
-- $1 id
select id from task_workers where id = $1 for update skip locked
