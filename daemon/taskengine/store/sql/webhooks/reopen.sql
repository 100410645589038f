-- Makes events fit to be processed (again): whatever they were marked with goes. One whose body retention took stays as it is.
-- $1 ids, $2 seconds for which the reconciler leaves them alone
update webhook_events
set status = 'received', processed_at = null, error = null, recoveries = 0, touched_at = now(),
  recover_at = now() + $2 * interval '1 s'
where id = any($1::bigint[]) and body is not null
returning id, source, type, recoveries, received_at
