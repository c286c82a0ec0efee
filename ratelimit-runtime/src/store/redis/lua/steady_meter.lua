-- Looks whether a call by a meter can be decided in a few steps: requests of one cost
-- each, for numbers that are stored just so, or for the first use of a limiter.
--
-- KEYS[1..3], ARGV[1..9]  of the limiter: see limiter.lua, meter.lua
local metered = ready and cost and #rule > 1 and string.sub(how, 1, 6) ~= 'follow'
if metered then
  stored = redis.pcall('HMGET', KEYS[key], 'rate', 'interval', 'type', 'keepAliveTime', 'vouched',
    'algorithm', 'burst', 'calendar', 'warm_up', 'debt')
  if not (stored[1] or stored[2] or stored[3] or stored[6] or stored[10] or stored.err)
    and not redis.pcall('GET', KEYS[key + 1]) and redis.pcall('ZCARD', KEYS[key + 2]) == 0 then
    local algorithm, detail = string.match(rule, '^0/([%l_]+)/?(.*)$')
    local burst = algorithm == 'token_bucket' and detail
    local calendar = algorithm == 'fixed_window' and detail ~= '' and detail
    if algorithm and not (burst and string.find(burst, '%D')) then
      fresh = { 'algorithm', algorithm }
      if burst or calendar then
        fresh[3], fresh[4] = burst and 'burst' or 'calendar', burst or calendar
      end
      stored = { ARGV[word + 1], ARGV[word + 2], '0', ARGV[word + 4], now, algorithm, burst, calendar }
    end
  end
  rate, per, keep_alive = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[4]) or 0
  local vouched, detail = tonumber(stored[5]), stored[7] or stored[8]
  metered = (fresh or how == 'steady') and stored[3] == '0' and stored[6]
    and not stored[9] and not stored[10] and stored[1] == ARGV[word + 1] and stored[2] == ARGV[word + 2] and rate > 0
    and keep_alive % 1 == 0 and keep_alive >= 0 and keep_alive <= 2 ^ 52
    and '0/' .. stored[6] .. (detail and '/' .. detail or '') == rule
  if metered and not fresh then
    if not (vouched and vouched <= now and now < vouched + 10000) then
      redis.call('HSET', KEYS[key], 'vouched', now)
    end
    state = redis.pcall('GET', KEYS[key + 1])
    -- Without a state of its own a limiter may have a log from before.
    metered = type(state) == 'string' or not state and redis.pcall('ZCARD', KEYS[key + 2]) == 0
  end
end
