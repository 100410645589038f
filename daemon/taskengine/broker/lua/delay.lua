-- Puts ids into the delayed set, out of processing; of two times the earlier wins; one that waits in the queue stays there.
-- KEYS: queue, delayed, processing.  ARGV: score and id in turn (one text).
local add, ids = {}, {}
for score, id in string.gmatch(ARGV[1], '(%S+) (%S+)') do
  ids[#ids + 1] = id
  if not redis.call('ZSCORE', KEYS[1], id) then
    add[#add + 1] = score
    add[#add + 1] = id
  end
end
if #add > 0 then redis.call('ZADD', KEYS[2], 'LT', unpack(add)) end
redis.call('ZREM', KEYS[3], unpack(ids))
return #add / 2
