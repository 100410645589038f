-- Takes the bodies and headers of a batch of webhook events that nothing waits for.
-- $1 age s, $2 limit
with old as (
  select id from webhook_events
  where received_at < now() - $1 * interval '1 s' and body is not null
    and (processed_at is not null or error is not null or status <> 'received')
  order by received_at limit $2 for update skip locked
)
update webhook_events e set body = null, headers = '{}' from old where e.id = old.id
