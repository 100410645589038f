-- Lines of executions' own logs.
-- $1 execution ids, $2 attempts, $3 times, $4 levels, $5 messages, $6 fields: arrays
insert into task_execution_logs (execution_id, attempt, at, level, message, fields)
select * from unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::text[], $5::text[], $6::jsonb[])
