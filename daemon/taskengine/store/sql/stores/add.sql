-- Adds a store, or opens and changes one.
-- $1 type_num, $2 name, $3 time zone, $4 dsn or null (keeps the old one)
insert into stores (type_num, name, time_zone, dsn) values ($1, $2, $3, $4)
on conflict (type_num) do update
set name = $2, time_zone = $3, dsn = coalesce($4, stores.dsn), is_active = true, closed_at = null
returning (xmax = 0) as created
