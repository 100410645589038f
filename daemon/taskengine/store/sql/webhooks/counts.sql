-- Unprocessed events of each source, and the age of the oldest one in seconds.
select source, count(*) as unprocessed, extract(epoch from now() - min(received_at))::float8 as oldest
from webhook_events
where status = 'received' and processed_at is null and error is null
group by source
