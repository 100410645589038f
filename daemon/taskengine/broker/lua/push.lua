-- Puts ids into a queue, out of its delayed set; wakes idle workers if the queue was empty.
-- KEYS: queue, delayed.  ARGV: wake channel, queue name, then score and id in turn.
-- Returns how many were not there yet.
local empty = redis.call('EXISTS', KEYS[1]) == 0
local pairs_of = {}
for i = 3, #ARGV do pairs_of[#pairs_of + 1] = ARGV[i] end
local added = redis.call('ZADD', KEYS[1], 'NX', unpack(pairs_of))
if redis.call('EXISTS', KEYS[2]) == 1 then
  local ids = {}
  for i = 4, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  redis.call('ZREM', KEYS[2], unpack(ids))
end
if empty and added > 0 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return added
