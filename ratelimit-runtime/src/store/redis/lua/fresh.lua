-- Makes a limiter nobody used yet, in as few steps as it takes: what every first
-- call for one of many keys comes down to.
--
-- KEYS[1..3], ARGV[1..9]  as for acquire.lua; what was read is steady.lua's
--
-- Returns what acquire.lua returns, or goes on to it with nothing written.
local taken = cost and cost * count
local own_rate, own_per = tonumber(ARGV[2]), tonumber(ARGV[3])
if taken and taken + cost <= own_rate and ARGV[4] == '0' and string.sub(ARGV[8], 1, 6) ~= 'follow'
  and not (stored[1] or stored[2] or stored[3] or stored[7])
  and not redis.call('GET', KEYS[2]) and redis.call('ZCARD', KEYS[3]) == 0 then
  redis.call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', '0',
    'keepAliveTime', ARGV[5], 'vouched', now,
    'epoch', ARGV[6] .. ':' .. ARGV[7] .. ':' .. ARGV[2] .. '/' .. ARGV[3] .. '/0')
  redis.call('ZADD', KEYS[3], now, struct.pack('<Bc0I', #ARGV[9], ARGV[9], taken))
  if ARGV[5] == '0' then
    redis.call('SET', KEYS[2], own_rate - taken)
  else
    local idle = math.max(tonumber(ARGV[5]), own_per + math.max(1, math.floor(own_per / 50)))
    idle = idle + math.floor(idle / 4)
    redis.call('SET', KEYS[2], own_rate - taken, 'PX', idle)
    redis.call('PEXPIRE', KEYS[1], idle)
    redis.call('PEXPIRE', KEYS[3], idle)
  end
  return { 1, own_rate, own_per, now, own_rate, own_per, 0, 1, 0, 0 }
end
