-- A daemon's row; its id is the worker's identity until it is stopped or declared dead.
-- $1 name, $2 host, $3 pid, $4 boot id, $5 version, $6 queues, $7 jobs, $8 slots
insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots)
values ($1, $2, $3, $4, $5, $6, $7, $8) returning id
