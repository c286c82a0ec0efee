-- Looks whether a call by a meter can be decided in a few steps: requests of one cost
-- each, for numbers that are stored just so and vouched for.
--
-- KEYS[1..3], ARGV[1..9]  as for acquire.lua
--
-- Every call makes the functions of a script anew, so there are none up to where
-- acquire.lua begins.
local cost, count = tonumber(ARGV[1]), 1
if not cost then
  cost, count = string.match(ARGV[1], '^(%d+)%*(%d+)$')
  cost, count = tonumber(cost), tonumber(count)
end
local stored = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', 'vouched',
  'algorithm', 'burst')
local rate, per, vouched = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(stored[5])
local settled = ARGV[8] == 'steady' and cost and rate > 0 and stored[3] == '0' and stored[6]
  and stored[1] == ARGV[2] and stored[2] == ARGV[3]
  and '0/' .. stored[6] .. (stored[7] and '/' .. stored[7] or '') == ARGV[4]
  and vouched and vouched <= now and now < vouched + 10000
local text = settled and redis.call('GET', KEYS[2])
-- Without a state of its own a limiter may have a log from before.
settled = settled and (text or redis.call('ZCARD', KEYS[3]) == 0)

local keep_alive = tonumber(stored[4]) or 0
