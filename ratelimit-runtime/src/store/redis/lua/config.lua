-- Holds what this process is configured with against what the hash says.
--
-- KEYS[1]  hash     rate, interval (ms), type, keepAliveTime (ms): Redisson's
--                   fields; epoch, vouched (ms), reset (ms), counted: ours
-- KEYS[2]  string   the counter, deleted by a reset or a change of mode
-- KEYS[3]  zset     the log, likewise
--
-- The epoch is `revision:since:rate/interval/type`: the configuration somebody
-- stands for, and since when. Numbers beside an epoch that names others were
-- written from outside (Java's setRate, an operator): a running process follows
-- them, a starting one overrides them.
--
-- Returns the configuration in force, and what happened; no configuration when
-- nothing is stored and the process has none of its own.
local NOTHING, CREATED, UNCHANGED, RESET, CARRIED, FOLLOWED = 0, 1, 2, 3, 4, 5
-- A process vouches for the stored numbers this often (ms), and a stored
-- configuration that nobody vouched for in this time (ms) is abandoned.
local VOUCH_EVERY, ABANDONED_AFTER = 10000, 30000

local function write_config(own, now)
  redis.call('HSET', KEYS[1], 'rate', own.rate, 'interval', own.per,
    'type', own.mode, 'keepAliveTime', own.keep_alive,
    'epoch', own.epoch, 'vouched', now)
end

-- Stands for numbers that are stored already. A keep-alive that a peer set stays
-- where we have none.
local function vouch(own, stored, now)
  if own.keep_alive > 0 then stored.keep_alive = own.keep_alive end
  redis.call('HSET', KEYS[1], 'epoch', own.epoch, 'vouched', now,
    'keepAliveTime', stored.keep_alive)
end

-- At most one reset per window; a change within it carries.
local function may_reset(own, per, now)
  local last = integer(redis.call('HGET', KEYS[1], 'reset'))
  return not last or now < last or now - last >= math.max(per, own.per)
end

local function forget_state()
  -- Reads first: a key of another type raises here and is never deleted.
  redis.call('GET', KEYS[2])
  redis.call('ZCARD', KEYS[3])
  redis.call('DEL', KEYS[2], KEYS[3])
end

-- A counter that was kept for other numbers is rebuilt from the log: now, or by
-- a later call when this one ends early.
local function forget_counter()
  if tonumber(redis.call('GET', KEYS[2]) or nil) then redis.call('DEL', KEYS[2]) end
end

-- Takes the stored configuration over with our own.
local function take_over(own, stored, asserting, now)
  local event = CARRIED
  if asserting and own.on_drift == 'reset' and may_reset(own, stored.per, now) then
    event = RESET
    forget_state()
    redis.call('HSET', KEYS[1], 'reset', now)
  elseif own.mode == '1' and stored.mode ~= '1' then
    forget_state()
  else
    forget_counter()
  end
  write_config(own, now)
  if stored.keep_alive > 0 and own.keep_alive == 0 then
    for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
  end
  return own, event
end

local function reconcile(own, now)
  local fields = redis.call('HMGET', KEYS[1],
    'rate', 'interval', 'type', 'keepAliveTime', 'epoch', 'vouched')
  local stored = {
    rate = integer(fields[1]), per = integer(fields[2]), mode = fields[3],
    keep_alive = integer(fields[4]) or 0,
  }
  local whole = stored.rate and stored.rate >= 0 and stored.per and stored.per >= 1
    and (stored.mode == '0' or stored.mode == '1')
  if own.follows then
    return whole and stored or nil, NOTHING
  end
  if not whole then
    forget_counter()
    write_config(own, now)
    return own, CREATED
  end

  local same = stored.rate == own.rate and stored.per == own.per and stored.mode == own.mode
  local vouched = integer(fields[6]) or 0
  if same and not own.asserting then
    if now - vouched >= VOUCH_EVERY or now < vouched then
      redis.call('HSET', KEYS[1], 'vouched', now)
    end
    return stored, NOTHING
  end

  local revision, since, numbers = string.match(fields[5] or '', '^(%d+):(%d+):(.+)$')
  local outside = numbers ~= decimal(stored.rate) .. '/' .. decimal(stored.per) .. '/' .. stored.mode
  revision, since = tonumber(revision), tonumber(since)
  local greater = not outside
    and (own.revision > revision or (own.revision == revision and own.since > since))

  if same then
    if outside or greater then vouch(own, stored, now) end
    return stored, UNCHANGED
  end
  local abandoned = not outside and now - vouched >= ABANDONED_AFTER
  local newer = greater or (outside and own.asserting)
  if newer or abandoned then
    return take_over(own, stored, own.asserting and newer, now)
  end
  return stored, FOLLOWED
end

-- Reads our own configuration from the arguments; see each script's header.
local function own_config(arguments)
  local own = {
    rate = tonumber(arguments[2]), per = tonumber(arguments[3]), mode = arguments[4],
    keep_alive = tonumber(arguments[5]), revision = tonumber(arguments[6]),
    since = tonumber(arguments[7]), asserting = arguments[8] == 'reset' or arguments[8] == 'carry', on_drift = arguments[8],
    follows = arguments[8] == 'follow' or arguments[8] == 'following',
  }
  own.epoch = arguments[6] .. ':' .. arguments[7] .. ':'
    .. arguments[2] .. '/' .. arguments[3] .. '/' .. arguments[4]
  return own
end
