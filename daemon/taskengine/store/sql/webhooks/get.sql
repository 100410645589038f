-- Events as their jobs see them.
-- $1 ids
select id, source, type, body, received_at, occurred_at, processed_at
from webhook_events where id = any($1::bigint[])
