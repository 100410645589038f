-- Puts ids into a queue, out of its delayed set; wakes idle workers if the queue was empty.
-- KEYS: queue, delayed.  ARGV: wake channel, queue name, score and id in turn (one text).
-- Returns how many were not there yet.
local empty = redis.call('EXISTS', KEYS[1]) == 0
local add = {}
for number in string.gmatch(ARGV[3], '%S+') do add[#add + 1] = number end
local added = redis.call('ZADD', KEYS[1], 'NX', unpack(add))
if redis.call('EXISTS', KEYS[2]) == 1 then
  local ids = {}
  for i = 2, #add, 2 do ids[#ids + 1] = add[i] end
  redis.call('ZREM', KEYS[2], unpack(ids))
end
if empty and added > 0 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return added
