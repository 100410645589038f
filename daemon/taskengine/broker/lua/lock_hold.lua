-- Takes the lock if it is free, renews it if it is ours.  KEYS: lock.  ARGV: token, length (ms).  Returns 1 if it is ours.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
