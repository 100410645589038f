-- All stores; whether there is a DSN, never the DSN.
select type_num, name, time_zone, is_active, dsn is not null as has_dsn, created_at, closed_at from stores order by type_num
