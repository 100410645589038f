-- Leases that have lapsed, and for how long.
select name, holder, extract(epoch from now() - expires_at)::float8 as seconds
from task_leases where expires_at < now() order by name
