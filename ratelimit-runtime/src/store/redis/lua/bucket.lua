-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- KEYS[2]  string  `bucket EMPTY_AT/TICKS/RATE/PER/AT`: the millisecond in which
--                  what was taken has come back, the ticks that are left then, the
--                  numbers it was counted by, and when it was written; behind it
--                  `/LAST`, when the last reservation begins, if that is to come
--
-- A tick is the rate'th part of a millisecond, in which one of them drains; a
-- permit is `per` ticks. So every number is whole, and below 2^53: a bucket holds
-- 2^52 ticks at the most, and what is reserved or owed beyond is 2^51 more.
local MOST_AHEAD = 2 ^ 51

local function read_bucket(text)
  local empty_at, ticks, rate, per, at, last =
    string.match(text or '', '^bucket (%d+)/(%d+)/(%d+)/(%d+)/(%d+)/?(%d*)$')
  return empty_at and {
    empty_at = tonumber(empty_at), ticks = tonumber(ticks), rate = tonumber(rate),
    per = math.max(1, tonumber(per)), at = tonumber(at), last = tonumber(last) or 0,
  }
end

-- The milliseconds until the last reservation begins.
local function lead_of(state, now)
  return math.max(0, state.last - math.max(now, state.at))
end

-- What other numbers left in use, in ticks. It does not begin anew before the last
-- reservation does, however fast it drains.
local function carried_ticks(used, lead, rate, per, most)
  local begun = lead > 0 and lead * rate + per or 0
  return math.min(math.max(used * per, begun), most + MOST_AHEAD)
end

-- The permits that a grant still holds of a backlog, and whether it is the last one.
-- `same` is whether both were counted by the same numbers. A slot that was reserved and
-- has not begun is held only as long as it is the last: later ones stay where they are.
local function held_by(grant, same, ticks, rate, per, spaced, now)
  local left = math.max(0, grant.ends - now)
  local own_rate, own_per = math.max(1, grant.rate), math.max(1, grant.per)
  local last, ends_in = same and left == math.ceil(ticks / rate), left * own_rate
  local begun = ends_in <= capacity_of(grant) * own_per
  if left == 0 or (not last and (spaced or not begun)) then return 0, false end
  -- A grant ends within the millisecond before it says so. At which tick is known of the
  -- last one, if that is the only one to end in it, and where all end at the same one.
  local rounded = own_rate - 1
  if own_per % own_rate == 0 then rounded = same and (rate - ticks % rate) % rate or 0 end
  local held = last and own_per >= own_rate and ticks or math.max(0, ends_in - rounded)
  return math.min(grant.permits, math.floor(held / own_per), math.floor(ticks / per)), last
end

-- The ticks that have not drained yet. No time has passed for a clock that stepped
-- back.
local function backlog_of(bucket, now)
  return math.max(0, (bucket.empty_at - math.max(now, bucket.at)) * bucket.rate + bucket.ticks)
end

-- A bucket with a backlog, now, which was written so far in the future, and whose last
-- reservation begins after `lead` ms.
local function bucket_meter(config, backlog, now, ahead, lead)
  local rate, per, capacity = config.rate, config.per, capacity_of(config)
  local most, spaced = capacity * per, config.algorithm == 'leaky_bucket'
  local meter = { capacity = capacity, spaced = spaced, ahead = ahead }

  function meter.free()
    if spaced then return backlog == 0 and capacity or 0 end
    return math.max(0, math.floor((most - backlog) / per))
  end

  function meter.take(permits) backlog = backlog + permits * per end

  -- Takes the end away. The reservation before begins with the last permit that is
  -- left, or before.
  local function shorten(permits)
    backlog = math.max(0, backlog - permits * per)
    lead = math.min(lead, math.max(0, math.ceil((backlog - (spaced and per or most)) / rate)))
  end

  function meter.undo(permits)
    local back = math.min(permits, math.ceil(backlog / per))
    shorten(permits)
    return back
  end

  function meter.give_back_grant(grant, same)
    local held, last = held_by(grant, same, backlog, rate, per, spaced, now + ahead)
    if last then shorten(held) else backlog = backlog - held * per end
    return held
  end

  function meter.promise(wait) lead = math.max(lead, wait) end

  function meter.room() return math.max(0, math.floor((most - backlog + lead * rate) / per)) end

  function meter.owe(permits) meter.take(permits) end

  -- What was taken beyond what it holds when the last reservation begins.
  function meter.debt() return math.max(0, math.ceil((backlog - most - lead * rate) / per)) end

  function meter.most_owed()
    return math.max(0, math.floor((most + MOST_AHEAD - backlog) / per))
  end

  -- Nothing while slots are reserved one after the other: two callers would get one.
  function meter.give_back(permits)
    if spaced and lead > 0 then return 0 end
    local used = math.ceil(backlog / per)
    backlog = math.max(0, backlog - permits * per)
    return math.min(permits, used)
  end

  function meter.wait(permits)
    -- In this order, so that no number on the way is above 2^53.
    local over = spaced and backlog or backlog - (most - permits * per)
    return math.max(0, math.ceil(over / rate))
  end

  function meter.full_after() return math.ceil(backlog / rate) end

  function meter.text()
    return backlog > 0 and 'bucket ' .. decimal(now + math.floor(backlog / rate)) .. '/'
      .. decimal(backlog % rate) .. '/' .. decimal(rate) .. '/' .. decimal(per) .. '/' .. decimal(now)
      .. (lead > 0 and '/' .. decimal(now + lead) or '')
  end

  return meter
end
