-- Renews all leases of a process; sent with its beat.
-- $1 token, $2 length s
update task_leases set expires_at = now() + $2 * interval '1 s' where token = $1 and expires_at >= now()
