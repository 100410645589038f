-- Events that an operator may have processed again, the oldest first, however fresh they are: those named, else all unprocessed ones.
-- $1 ids or null, $2 source, $3 limit
select id, source, event_id, type, status, octet_length(body) as size, received_at, occurred_at, touched_at, recoveries,
  processed_at, error
from webhook_events
where ($2::text is null or source = $2)
  and case when $1::bigint[] is null then status = 'received' and processed_at is null else id = any($1::bigint[]) end
order by received_at, id limit $3
