-- Refunds what one grant still holds, and nothing of any other grant.
--
-- KEYS[1..3]  hash, counter, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  integer  permits that were granted
-- ARGV[2]  integer  when they would be free again by themselves, ms
-- ARGV[3]  integer  rate under which they were granted
-- ARGV[4]  integer  window under which they were granted, ms
-- ARGV[5]  mode and algorithm under which they were granted, as for limiter.lua
-- ARGV[6]  `MOVED/BEFORE`: how far grants had moved then, ticks: see moves.lua; and when the last
--          reservation made before a reservation begins, at the latest, ms, or more than MOST_EXACT
--          for permits that were free
-- ARGV[7]  an id for a new log member
--
-- Returns { outcome, refunded permits }: outcome as named below.
local DONE, OTHER_MODE, FOREIGN, UNKNOWN = 1, 3, 4, 5

local moved, before = string.match(ARGV[6], '^(%d+)/(%d+)$')
local grant = read_rule({
  permits = tonumber(ARGV[1]), ends = tonumber(ARGV[2]), rate = tonumber(ARGV[3]),
  per = tonumber(ARGV[4]), moved = tonumber(moved), before = tonumber(before),
}, ARGV[5])
local config, known = stored_config()
if not known then return { UNKNOWN, 0 } end
if config.mode == '1' then return { OTHER_MODE, 0 } end
if config.state and not used_of(config.state, now) then return { FOREIGN, 0 } end

local function drains(rule)
  return rule.algorithm == 'token_bucket' or rule.algorithm == 'leaky_bucket'
end

local function to_bucket()
  if config.rate == 0 then return 0 end
  local meter, found = read_meter(config, now)
  if not meter then return nil end
  -- Its position in a backlog of another configuration is unknown.
  if found or grant.rate ~= config.rate or grant.per ~= config.per
    or grant.warm_up ~= config.warm_up then
    return 0
  end
  local back = meter.give_back_grant(grant)
  store_meter(meter, config, back > 0)
  return back
end

local function to_window()
  local window = read_window(config.state)
  if not window or window.calendar ~= config.calendar
    or not (config.calendar or window.per == config.per)
    or window.start + window.per ~= grant.ends or grant.ends <= now then
    return 0
  end
  local back = math.min(grant.permits, window.used)
  window.used = window.used - back
  if window.used == 0 and owed_of(window, now) == 0 then
    redis.call('HDEL', KEYS[1], 'state')
  elseif back > 0 then
    redis.call('HSET', KEYS[1], 'state', text_of_window(window))
  end
  return back
end

-- Returns the members that were written when the permits were granted, and their score: those of
-- the time bucket into which compaction merged them, if it did.
local function members_of_grant()
  local score = grant.ends - grant.per
  local members = redis.call('ZRANGEBYSCORE', KEYS[3], score, score)
  if not members[1] then
    local compacted = integer(redis.call('HGET', KEYS[1], 'compacted'))
    if not compacted or score > compacted then return members, score end
    local bucket = bucket_of(config.per)
    score = math.ceil(score / bucket) * bucket
    members = redis.call('ZRANGEBYSCORE', KEYS[3], score, score)
  end
  return members, score
end

-- Takes the permits out of the log, and returns how many.
local function take_out(members, score)
  local left = grant.permits
  for _, member in ipairs(members) do
    local permits = permits_of(member)
    local back = math.min(left, permits)
    if left == 0 then break end
    -- The rest is written first: a log that is empty for a moment loses its expiry.
    if back < permits then
      redis.call('ZADD', KEYS[3], score, string.sub(member, 1, -5) .. struct.pack('<I', permits - back))
    end
    redis.call('ZREM', KEYS[3], member)
    left = left - back
  end
  return grant.permits - left
end

local function to_log()
  local text, per = redis.call('GET', KEYS[2]), config.per
  if config.state or (text and not tonumber(text)) or grant.ends - grant.per + per <= now then return 0 end
  local owes, expired, released = config.debt > 0, 0, 0
  -- Permits that became free before pay the debt first.
  local dropped = pay_as_freed(config, now)
  if owes then expired, released = over(per, now) end
  if not (dropped and expired) then return nil end
  local members, score = members_of_grant()
  if not sum(members) then return nil end
  drop(expired)
  local back = take_out(members, score)
  if owes or back > 0 then
    local free = integer(text)
    free = free and free + back + dropped + released or counter_of_log(config)
    if not free then return nil end
    keep_counter(pay_now(config, free, now))
  end
  return back
end

local back = 0
if drains(grant) and drains(config) then
  back = to_bucket()
elseif grant.algorithm == 'fixed_window' and config.algorithm == 'fixed_window' then
  back = to_window()
elseif not grant.algorithm and not config.algorithm then
  back = to_log()
end
return { back and DONE or FOREIGN, back or 0 }
