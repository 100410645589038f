-- The newest events first, filtered; without their bodies.
-- $1 source, $2 status, $3 type, $4 processed?, $5 with an error?, $6 before id, $7 limit
select id, source, event_id, type, status, octet_length(body) as size, received_at, occurred_at, touched_at, recoveries,
  processed_at, error
from webhook_events
where ($1::text is null or source = $1) and ($2::text is null or status = $2) and ($3::text is null or type = $3)
  and ($4::boolean is null or (processed_at is not null) = $4) and ($5::boolean is null or (error is not null) = $5)
  and ($6::bigint is null or id < $6)
order by id desc limit $7
