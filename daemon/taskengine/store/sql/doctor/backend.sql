-- The server's process behind this connection.
select pg_backend_pid() as pid
