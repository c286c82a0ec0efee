-- Reads and writes the configuration of a limiter.
--
-- KEYS[1]  hash  rate, interval (ms), type, keepAliveTime (ms): Redisson's fields;
--                algorithm, burst, warm_up (ms), calendar: ours, absent for a sliding
--                window; epoch, vouched (ms), reset (ms), counted, compacted (ms):
--                ours; debt: permits that are owed, absent for none. What is free in a
--                window pays them first; a bucket has them in its backlog
-- ARGV[4]  our rule, which replies need not repeat
--
-- A configuration is { rate, per, mode, algorithm, burst, warm_up, calendar, keep_alive };
-- without an algorithm it is a sliding window. A calendar is `day@Europe/Vienna`.
local ALGORITHMS = { token_bucket = true, fixed_window = true, leaky_bucket = true }

-- What is stored, and whether all of it is there.
local function stored_config()
  local fields = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime',
    'epoch', 'vouched', 'algorithm', 'burst', 'warm_up', 'calendar', 'debt')
  local stored = {
    rate = integer(fields[1]), per = integer(fields[2]), mode = fields[3],
    keep_alive = integer(fields[4]) or 0, epoch = fields[5] or '',
    vouched = integer(fields[6]) or 0, algorithm = fields[7] or nil, burst = 0,
    warm_up = 0, debt = math.max(0, integer(fields[11]) or 0),
  }
  if stored.algorithm == 'token_bucket' then
    stored.warm_up = integer(fields[9]) or 0
    stored.burst = stored.warm_up == 0 and (integer(fields[8]) or stored.rate) or 0
  elseif stored.algorithm == 'fixed_window' then
    stored.calendar = fields[10] or nil
  end
  local whole = stored.rate and stored.rate >= 0 and stored.per and stored.per >= 1
    and (stored.mode == '0' or stored.mode == '1')
  return stored, whole
end

-- Reads `0`, `1/leaky_bucket`, `0/token_bucket/20`, with a warm-up in ms
-- `0/token_bucket/w4000`, or `0/fixed_window/day@Europe/Vienna` into a configuration.
local function read_rule(config, text)
  local rule, calendar = string.match(text, '^(.-)/(%l+@.+)$')
  local mode, algorithm, warms, number =
    string.match(rule or text, '^([01])/?([%l_]*)/?(w?)(%d*)$')
  config.calendar = calendar
  config.mode, config.algorithm = mode, ALGORITHMS[algorithm] and algorithm
  config.burst = warms == '' and tonumber(number) or 0
  config.warm_up = warms == 'w' and tonumber(number) or 0
  return config
end

-- What `read_rule` reads.
local function rule_of(config)
  local text = config.mode
  if config.algorithm then text = text .. '/' .. config.algorithm end
  if config.burst > 0 then text = text .. '/' .. decimal(config.burst) end
  if config.warm_up > 0 then text = text .. '/w' .. decimal(config.warm_up) end
  if config.calendar then text = text .. '/' .. config.calendar end
  return text
end

-- All that limits, as a text; an epoch ends with it.
local function numbers_of(config)
  return decimal(config.rate) .. '/' .. decimal(config.per) .. '/' .. rule_of(config)
end

-- Writes what limits, in the place of what is stored.
local function write_config(config, stored)
  redis.call('HSET', KEYS[1], 'rate', decimal(config.rate), 'interval', decimal(config.per),
    'type', config.mode, 'keepAliveTime', decimal(config.keep_alive))
  if stored.algorithm then
    redis.call('HDEL', KEYS[1], 'algorithm', 'burst', 'warm_up', 'calendar')
  end
  if config.algorithm then redis.call('HSET', KEYS[1], 'algorithm', config.algorithm) end
  if config.burst > 0 then redis.call('HSET', KEYS[1], 'burst', decimal(config.burst)) end
  if config.warm_up > 0 then redis.call('HSET', KEYS[1], 'warm_up', decimal(config.warm_up)) end
  if config.calendar then redis.call('HSET', KEYS[1], 'calendar', config.calendar) end
end

-- Writes what is owed, if that changed.
local function store_debt(config, debt)
  if debt == (config.debt or 0) then return end
  if debt > 0 then
    redis.call('HSET', KEYS[1], 'debt', decimal(debt))
  else
    redis.call('HDEL', KEYS[1], 'debt')
  end
  config.debt = debt
end

-- The most permits one request can get.
local function capacity_of(config)
  local holds = config.algorithm == 'token_bucket' and config.rate > 0 and config.warm_up == 0
  if holds then return config.burst end
  return config.rate
end

-- What every reply starts with; see limiter.lua. `more_after` is 0 unless given.
local function reply_of(kind, free, reset_after, now, config, event, ahead, more_after)
  local rule = rule_of(config)
  return { kind, math.max(0, free), reset_after, now, config.rate, config.per,
    rule == ARGV[4] and 0 or rule, event, ahead, more_after or 0 }
end

local NO_CONFIG = { rate = 0, per = 0, mode = '0', burst = 0, warm_up = 0 }
