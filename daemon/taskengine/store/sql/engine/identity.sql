-- Who this database is, and the generation of the last rebuild of Redis.
select identity::text as identity, generation from task_engine
