-- The database's clock.
select clock_timestamp() as now
