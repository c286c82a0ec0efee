-- Writes the counter of a sliding window, and sets when all its keys expire: together, or not at all.
-- This is Redisson's rule; see also grant.lua.
--
-- KEYS[1]  hash    the configuration, which determines when all keys expire
-- KEYS[2]  string  the counter
-- KEYS[3]  zset    the log

-- Returns the ms until the hash expires; nil if it does not expire. In its last millisecond that is
-- 0, and the hash still exists.
local function left_of_hash()
  local left = redis.call('PTTL', KEYS[1])
  return left >= 0 and math.max(1, left) or nil
end

-- Writes the counter without a change of the expiry. A recreated key takes the expiry of the hash.
local function keep_counter(free)
  local left = left_of_hash()
  if left then
    redis.call('SET', KEYS[2], decimal(free), 'PX', left)
    redis.call('PEXPIRE', KEYS[3], left)
  else
    redis.call('SET', KEYS[2], decimal(free), 'KEEPTTL')
  end
end

-- Writes the counter, and renews the keep-alive.
local function store_counter(free, config)
  local idle = config.keep_alive
  if idle == 0 then return keep_counter(free) end
  -- At least until the permits in use are free again, and a quarter longer.
  idle = math.max(idle, config.per + bucket_of(config.per))
  idle = idle + math.ceil(config.debt / math.max(1, config.rate)) * config.per
  idle = math.min(idle + math.floor(idle / 4), LONGEST)
  redis.call('PEXPIRE', KEYS[1], idle)
  redis.call('SET', KEYS[2], decimal(free), 'PX', idle)
  redis.call('PEXPIRE', KEYS[3], idle)
end

-- Returns the counter that the log implies; nil if a member has an unsupported format. A log that is
-- too long to be counted at once confirms the `known` counter, or counts as the whole quota if it is
-- not known.
local function counter_of_log(config, known)
  local used, whole = count(0)
  if not used then return nil end
  return whole and config.rate - used or math.min(known or 0, config.rate - used)
end
