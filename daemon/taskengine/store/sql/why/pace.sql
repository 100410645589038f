-- How fast a queue moves: of what ended last, in any queue, how many were this queue's runs, and within how many seconds.
-- $1 queue, $2 seconds back at the most, $3 rows looked at at the most
with last as materialized (
  select queue, claimed_at, finished_at from task_executions
  where finished_at is not null and emptied_at is null and finished_at > now() - $2::float8 * interval '1 s'
  order by finished_at desc limit $3
)
select count(*) filter (where queue = $1 and claimed_at is not null) as ended,
  case when count(*) < $3 then $2 else greatest(1, extract(epoch from now() - min(finished_at)))::float8 end as seconds
from last
