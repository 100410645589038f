-- Takes or renews a lease by one conditional update; no row back means that somebody else holds it.
-- $1 name, $2 holder, $3 token, $4 length s
insert into task_leases as l (name, holder, token, expires_at)
values ($1, $2, $3, now() + $4 * interval '1 s')
on conflict (name) do update set holder = $2, token = $3, expires_at = excluded.expires_at
where l.token = $3 or l.expires_at < now()
returning token
