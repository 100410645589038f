-- Marks events whose job succeeded and which it did not mark itself. Who is being processed right now is passed over.
-- $1 ids
with unmarked as materialized (
  select id from webhook_events
  where id = any($1::bigint[]) and processed_at is null
  order by id for no key update skip locked
)
update webhook_events v set processed_at = now(), error = null
from unmarked where v.id = unmarked.id
returning v.id, v.source
