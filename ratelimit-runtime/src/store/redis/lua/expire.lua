-- Sets or clears the expiry of a limiter, for all its keys at once.
--
-- KEYS[1..3]  hash, counter, log
-- ARGV[1]  integer  ms until then, or `never`
-- ARGV[2]  `once`, or `idle` to renew it with every use
--
-- Returns how many keys it changed.
local changed, never = 0, ARGV[1] == 'never'
-- A key of another type raises here, and never expires.
redis.call('HGET', KEYS[1], 'rate')
redis.call('GET', KEYS[2])
redis.call('ZCARD', KEYS[3])
if ARGV[2] == 'idle' and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'keepAliveTime', never and '0' or ARGV[1])
  changed = 1
end
for _, key in ipairs(KEYS) do
  if never then
    changed = changed + redis.call('PERSIST', key)
  else
    changed = changed + redis.call('PEXPIRE', key, ARGV[1])
  end
end
return changed
