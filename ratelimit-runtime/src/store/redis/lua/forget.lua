-- Discards what was counted under a replaced configuration, or converts it.
--
-- KEYS[1]  hash    `debt` and `state`: see hash.lua
-- KEYS[2]  string  the counter of a sliding window
-- KEYS[3]  zset    the log

-- Discards all usage, for a reset or a change of mode.
local function forget_state(config)
  -- Reads first: a key of another type raises here and is never deleted.
  redis.call('GET', KEYS[2])
  redis.call('ZCARD', KEYS[3])
  redis.call('UNLINK', KEYS[2], KEYS[3])
  redis.call('HDEL', KEYS[1], 'debt', 'state')
  config.debt, config.owes, config.state = 0, nil, nil
end

-- A counter of another configuration is rebuilt from the log: now, or by a later call if this one
-- ends early. The state of another rule includes its own configuration, and keeps its meaning under
-- a new one.
local function forget_counter()
  if tonumber(redis.call('GET', KEYS[2]) or nil) then redis.call('UNLINK', KEYS[2]) end
end

-- Returns the counter under another configuration, or nil if it is unknown. From one rate of a
-- sliding window to another it moves by their difference, so that it still agrees with a log that is
-- too long to be counted at once.
local function moved_counter(config, stored)
  local free = integer(redis.call('GET', KEYS[2]))
  local shared = stored.rate and stored.mode == '0' and config.mode == '0'
  local windows = not (stored.algorithm or stored.state or config.algorithm)
  return free and shared and windows and free + config.rate - stored.rate
end

local function move_counter(config, stored)
  local free = moved_counter(config, stored)
  if not free then return forget_counter() end
  redis.call('SET', KEYS[2], decimal(free), 'KEEPTTL')
end
