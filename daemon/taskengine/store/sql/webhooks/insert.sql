-- Stores an event; no row back means that it is here already.
-- $1 source, $2 event id, $3 type, $4 status, $5 body, $6 its SHA-256, $7 headers, $8 occurred_at, $9 error
insert into webhook_events (source, event_id, type, status, body, body_sha256, headers, occurred_at, error)
values ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9)
on conflict (source, event_id) do nothing
returning id
