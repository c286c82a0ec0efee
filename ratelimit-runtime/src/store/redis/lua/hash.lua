-- Reads and writes the configuration of a limiter.
--
-- KEYS[1]  hash  rate, interval (ms), type, keepAliveTime (ms): Redisson's fields;
--                algorithm, burst (absent if it is the rate, 0 beside warm_up), warm_up (ms),
--                calendar: ours, absent for a sliding window; epoch, changed, recent, reset
--                (ms): ours, see history.lua; counted, compacted (ms): ours, see mend.lua;
--                debt: permits that a sliding window owes, absent for none: what is free
--                pays them first; state: what is used by every other rule, see meter.lua;
--                charges: when the last one was made, and ids, see charge.lua
-- ARGV[4]  our rule, which replies need not repeat
--
-- A configuration is { rate, per, mode, algorithm, burst, warm_up, calendar, keep_alive };
-- without an algorithm it is a sliding window. A calendar is `day@Europe/Vienna`.
local ALGORITHMS = { token_bucket = true, fixed_window = true, leaky_bucket = true }

-- Returns a field as a number; 0 if it is absent or not a number of ours.
local function field(text, most)
  local number = integer(text)
  return number and number >= 0 and number <= most and number or 0
end

-- Whether a bucket can be counted exactly; see bucket.lua and warm_up.lua.
local function is_countable(stored)
  local drains = stored.algorithm == 'token_bucket' or stored.algorithm == 'leaky_bucket'
  if not drains or stored.rate == 0 then return true end
  local holds = stored.burst > 0 and stored.burst or stored.rate
  return stored.rate < 2 ^ 32 and holds * stored.per <= 2 ^ 52
    and stored.rate * stored.warm_up <= 2 ^ 41
end

-- Returns what is stored, and whether it is complete and valid. `repaired` is set if the keep-alive
-- was invalid, which other clients may set.
local function stored_config()
  local fields = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime',
    'epoch', 'algorithm', 'burst', 'warm_up', 'calendar', 'debt', 'changed', 'recent', 'state')
  local stored = {
    rate = integer(fields[1]), per = integer(fields[2]), mode = fields[3],
    keep_alive = field(fields[4], LONGEST), epoch = fields[5] or '',
    algorithm = fields[6] or nil, burst = 0, warm_up = 0, debt = field(fields[10], MOST_EXACT),
    owes = fields[10], changed = fields[11] or '', recent = fields[12] or '', state = fields[13] or nil,
  }
  stored.repaired = fields[4] and tonumber(fields[4]) ~= stored.keep_alive
  local whole = stored.rate and stored.rate >= 0 and stored.per and stored.per >= 1
    and stored.per <= LONGEST and (stored.mode == '0' or stored.mode == '1')
  if stored.algorithm == 'token_bucket' then
    if fields[7] == '0' then stored.warm_up = field(fields[8], LONGEST) end
    if stored.warm_up == 0 then
      stored.burst = fields[7] and field(fields[7], 2 ^ 32 - 1) or stored.rate
      whole = whole and (stored.rate == 0 or stored.burst > 0)
    end
  elseif stored.algorithm == 'fixed_window' then
    stored.calendar = fields[9] or nil
  end
  return stored, whole and is_countable(stored)
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
  config.debt = 0
  return config
end

-- Writes what `read_rule` reads.
local function rule_of(config)
  local text = config.mode
  if config.algorithm then text = text .. '/' .. config.algorithm end
  if config.burst > 0 then text = text .. '/' .. decimal(config.burst) end
  if config.warm_up > 0 then text = text .. '/w' .. decimal(config.warm_up) end
  if config.calendar then text = text .. '/' .. config.calendar end
  return text
end

-- Returns the limit as a text.
local function numbers_of(config)
  return decimal(config.rate) .. '/' .. decimal(config.per) .. '/' .. rule_of(config)
end

-- Writes a limit in place of the stored one.
local function write_config(config, stored)
  redis.call('HSET', KEYS[1], 'rate', decimal(config.rate), 'interval', decimal(config.per),
    'type', config.mode, 'keepAliveTime', decimal(config.keep_alive))
  if stored.algorithm then
    redis.call('HDEL', KEYS[1], 'algorithm', 'burst', 'warm_up', 'calendar')
  end
  if config.algorithm then redis.call('HSET', KEYS[1], 'algorithm', config.algorithm) end
  if config.burst > 0 and config.burst ~= config.rate then
    redis.call('HSET', KEYS[1], 'burst', decimal(config.burst))
  end
  if config.warm_up > 0 then
    redis.call('HSET', KEYS[1], 'burst', '0', 'warm_up', decimal(config.warm_up))
  end
  if config.calendar then redis.call('HSET', KEYS[1], 'calendar', config.calendar) end
end

-- Writes the debt of a sliding window, if it changed.
local function store_debt(config, debt)
  if debt > 0 and debt ~= config.debt then redis.call('HSET', KEYS[1], 'debt', decimal(debt)) end
  if debt == 0 and config.owes then redis.call('HDEL', KEYS[1], 'debt') end
  config.debt, config.owes = debt, debt > 0
end

-- Returns the most permits that one request can get.
local function capacity_of(config)
  local holds = config.algorithm == 'token_bucket' and config.rate > 0 and config.warm_up == 0
  if holds then return config.burst end
  return config.rate
end

-- Returns the start of every reply; see limiter.lua. `more_after` and `moved` are 0 unless given.
local function reply_of(kind, free, reset_after, now, config, event, ahead, more_after, moved)
  local rule = rule_of(config)
  if config.replaced then event = event .. ' ' .. config.replaced end
  if config.announcer then event = event .. ' @' .. config.announcer end
  return { kind, countable(free), countable(reset_after), now, config.rate, config.per,
    rule == ARGV[4] and 0 or rule, event, countable(ahead), more_after and countable(more_after) or 0, moved or 0 }
end

local NO_CONFIG = { rate = 0, per = 0, mode = '0', burst = 0, warm_up = 0 }
