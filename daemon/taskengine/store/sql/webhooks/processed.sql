-- Marks the event, locked before, as processed.
-- $1 event id
update webhook_events set processed_at = clock_timestamp(), error = null where id = $1
