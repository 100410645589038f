-- Puts ids into the delayed set, out of processing; of two times the earlier wins; one that waits in the queue stays there.
-- KEYS: queue, delayed, processing.  ARGV: score and id in turn.
local add, ids = {}, {}
for i = 1, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i + 1]
  if not redis.call('ZSCORE', KEYS[1], ARGV[i + 1]) then
    add[#add + 1] = ARGV[i]
    add[#add + 1] = ARGV[i + 1]
  end
end
if #add > 0 then redis.call('ZADD', KEYS[2], 'LT', unpack(add)) end
redis.call('ZREM', KEYS[3], unpack(ids))
return #add / 2
