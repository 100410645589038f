-- The active ones of these stores.
-- $1 type_nums
select type_num, name, time_zone from stores where type_num = any($1::text[]) and is_active
