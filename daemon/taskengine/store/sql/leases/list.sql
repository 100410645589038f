-- Who holds which lease.
select name, holder, expires_at from task_leases where expires_at >= now() order by name
