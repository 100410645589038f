-- The server's version and clock.
select current_setting('server_version') as version, now() as now
