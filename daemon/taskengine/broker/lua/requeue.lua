-- Gives back what was reserved and not claimed within the grace: first in line.
-- KEYS: processing, queue.  ARGV: grace (µs), n, wake channel, queue name.  Returns how many.
local time = redis.call('TIME')
local before = time[1] * 1000000 + time[2] - tonumber(ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', before), 'LIMIT', 0, ARGV[2])
if #ids == 0 then return 0 end
local add = {}
for i = 1, #ids do
  add[#add + 1] = 0
  add[#add + 1] = ids[i]
end
redis.call('ZADD', KEYS[2], 'NX', unpack(add))
redis.call('ZREM', KEYS[1], unpack(ids))
redis.call('PUBLISH', ARGV[3], ARGV[4])
return #ids
