-- A worker that ends as asked; it holds nothing any more.
-- $1 id
update task_workers set stopped_at = now() where id = $1
