-- Writes why events will not be processed; one that was processed, or has an error already, keeps what it has.
-- $1 ids, $2 errors: arrays
with input as materialized (
  select * from unnest($1::bigint[], $2::text[]) as u(id, error)
), open as materialized (
  select v.id from webhook_events v
  where v.id = any($1::bigint[]) and v.processed_at is null and v.error is null
  order by v.id for no key update skip locked
)
update webhook_events v set error = i.error
from open o join input i on i.id = o.id
where v.id = o.id
returning v.id
