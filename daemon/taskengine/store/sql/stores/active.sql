-- Active stores.
select type_num, name, time_zone from stores where is_active order by type_num
