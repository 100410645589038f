-- Closes a store: no new executions for it; what is pending still runs.
-- $1 type_num
update stores set is_active = false, closed_at = coalesce(closed_at, now()) where type_num = $1 returning type_num
