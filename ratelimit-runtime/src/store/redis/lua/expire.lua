-- Sets or clears when a limiter expires, all its keys at once.
--
-- KEYS[1..3]  hash, counter or another rule's state, log
-- ARGV[1]  integer  ms until then; 0 for never
-- ARGV[2]  `once`, or `idle` to keep it alive for as long with every use
--
-- Returns how many keys it changed.
local changed = 0
if ARGV[2] == 'idle' and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'keepAliveTime', ARGV[1])
  changed = 1
end
local ttl = ttl_of(redis.call('GET', KEYS[2]), now)
for i, key in ipairs(KEYS) do
  if i == 2 and ttl then
    -- It ends by itself, and no later than the rest.
    redis.call('PEXPIRE', key, ARGV[1] == '0' and ttl or math.min(ttl, tonumber(ARGV[1])))
  elseif ARGV[1] == '0' then
    changed = changed + redis.call('PERSIST', key)
  else
    changed = changed + redis.call('PEXPIRE', key, ARGV[1])
  end
end
return changed
