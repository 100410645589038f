-- One store with its DSN.
-- $1 type_num
select type_num, name, time_zone, is_active, dsn from stores where type_num = $1
