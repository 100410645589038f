-- Which ids have a message anywhere, all sets seen at one moment; a key of another type holds none.
-- KEYS: sets.  ARGV: ids (one text).  Returns 1 or 0 for each id.
local sets = {}
for i = 1, #KEYS do
  if redis.call('TYPE', KEYS[i]).ok == 'zset' then sets[#sets + 1] = KEYS[i] end
end
local out = {}
for id in string.gmatch(ARGV[1], '%S+') do
  local there = 0
  for i = 1, #sets do
    if redis.call('ZSCORE', sets[i], id) then there = 1 break end
  end
  out[#out + 1] = there
end
return out
