-- Takes ids out of processing: they are claimed, or nobody's to run.
-- KEYS: processing sets.  ARGV: the ids of each (one text a set).
local dropped = 0
for k = 1, #KEYS do
  local ids = {}
  for id in string.gmatch(ARGV[k], '%S+') do ids[#ids + 1] = id end
  dropped = dropped + redis.call('ZREM', KEYS[k], unpack(ids))
end
return dropped
