-- Holds what this process is configured with against what the hash says.
--
-- KEYS[1]  hash     the configuration: see hash.lua
-- KEYS[2]  string   the counter or another rule's state, deleted by a reset or a
--                   change of mode
-- KEYS[3]  zset     the log, likewise
--
-- The epoch is `revision:since:rate/interval/type`, with the algorithm behind it
-- where there is one: the configuration somebody stands for, and since when. Numbers beside an epoch that names others were
-- written from outside (Java's setRate, an operator): a running process follows
-- them, a starting one overrides them.
--
-- Returns the configuration in force, and what happened; no configuration when
-- nothing is stored and the process has none of its own. `stored` and `whole` are what
-- `stored_config` returned.
local NOTHING, CREATED, UNCHANGED, RESET, CARRIED, FOLLOWED = 0, 1, 2, 3, 4, 5
-- A process vouches for the stored numbers this often (ms), and a stored
-- configuration that nobody vouched for in this time (ms) is abandoned.
local VOUCH_EVERY, ABANDONED_AFTER = 10000, 30000

local function write_own(own, stored, now)
  write_config(own, stored)
  redis.call('HSET', KEYS[1], 'epoch', own.epoch, 'vouched', now)
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
  redis.call('HDEL', KEYS[1], 'debt')
end

-- A counter that was kept for other numbers is rebuilt from the log: now, or by
-- a later call when this one ends early. Other state says by what numbers it is to
-- be read, and means the same under new ones.
local function forget_counter()
  if tonumber(redis.call('GET', KEYS[2]) or nil) then redis.call('DEL', KEYS[2]) end
end

-- Takes the stored configuration over with our own.
local function take_over(own, stored, asserting, now)
  local event = CARRIED
  own.debt = stored.debt
  if asserting and own.on_drift == 'reset' and may_reset(own, stored.per, now) then
    event, own.debt = RESET, 0
    forget_state()
    redis.call('HSET', KEYS[1], 'reset', now)
  elseif own.mode == '1' and stored.mode ~= '1' then
    own.debt = 0
    forget_state()
  else
    forget_counter()
  end
  write_own(own, stored, now)
  if stored.keep_alive > 0 and own.keep_alive == 0 then
    -- The state of the other rules ends by itself.
    for i = 1, own.algorithm and 1 or 3 do redis.call('PERSIST', KEYS[i]) end
  end
  return own, event
end

local function reconcile(own, now, stored, whole)
  if own.follows then
    return whole and stored or nil, NOTHING
  end
  if not whole then
    forget_counter()
    write_own(own, stored, now)
    own.debt = stored.debt
    return own, CREATED
  end

  local numbers_stored = numbers_of(stored)
  local same = numbers_stored == numbers_of(own)
  local vouched = stored.vouched
  if same and not own.asserting then
    if now - vouched >= VOUCH_EVERY or now < vouched then
      redis.call('HSET', KEYS[1], 'vouched', now)
    end
    return stored, NOTHING
  end

  local revision, since, numbers = string.match(stored.epoch, '^(%d+):(%d+):(.+)$')
  local outside = numbers ~= numbers_stored
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
  local own = read_rule({
    rate = tonumber(arguments[2]), per = tonumber(arguments[3]),
    keep_alive = tonumber(arguments[5]), revision = tonumber(arguments[6]),
    since = tonumber(arguments[7]), on_drift = arguments[8],
    asserting = arguments[8] == 'reset' or arguments[8] == 'carry',
    follows = arguments[8] == 'follow' or arguments[8] == 'following',
  }, arguments[4])
  own.epoch = arguments[6] .. ':' .. arguments[7] .. ':' .. numbers_of(own)
  return own
end
