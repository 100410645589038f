-- How often each move stands in an execution's history.
-- $1 id
select move, count(*) as times from task_attempts where execution_id = $1 group by move order by move
