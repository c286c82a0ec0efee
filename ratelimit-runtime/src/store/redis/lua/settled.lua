-- Looks whether a call by a meter can be decided in a few steps: requests of one cost
-- each, for numbers that are stored just so.
--
-- KEYS[1..3], ARGV[1..11]  as for acquire.lua
--
-- Every call makes the functions of a script anew, so there are none up to where
-- acquire.lua begins. That goes on with `settled`, `text`, `stored`, `rate` and
-- `per`, as after steady.lua: nothing is settled for a sliding window here.
local settled, text = false, nil
local cost, count = tonumber(ARGV[1]), 1
if not cost then
  cost, count = string.match(ARGV[1], '^(%d+)%*(%d+)$')
  cost, count = tonumber(cost), tonumber(count)
end
local stored = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', 'vouched',
  'algorithm', 'burst', 'calendar', 'warm_up', 'debt')
local rate, per, vouched = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(stored[5])
local detail = stored[7] or stored[8]
local ready = ARGV[8] == 'steady' and cost and rate > 0 and stored[3] == '0' and stored[6]
  and not stored[9] and not stored[10] and stored[1] == ARGV[2] and stored[2] == ARGV[3]
  and '0/' .. stored[6] .. (detail and '/' .. detail or '') == ARGV[4]
if ready and not (vouched and vouched <= now and now < vouched + 10000) then
  -- A process vouches for the stored numbers every ten seconds.
  redis.call('HSET', KEYS[1], 'vouched', now)
end
local state = ready and redis.call('GET', KEYS[2])
-- Without a state of its own a limiter may have a log from before.
ready = ready and (state or redis.call('ZCARD', KEYS[3]) == 0)

local keep_alive = tonumber(stored[4]) or 0
