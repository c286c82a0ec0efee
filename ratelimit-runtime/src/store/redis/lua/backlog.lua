-- What buckets have in common: a backlog in ticks that drains steadily, reservations at
-- its end, grants in it, and permits that are owed beyond what it holds; see bucket.lua.
local MOST_AHEAD = 2 ^ 51 -- ticks beyond what a bucket holds

-- Whether all numbers of a state can be counted with.
local function are_exact(state)
  for _, number in pairs(state) do
    if type(number) == 'number' and number > MOST_EXACT then return false end
  end
  return true
end

-- The milliseconds until the last reservation begins.
local function lead_of(state, now)
  return math.max(0, state.last - math.max(now, state.at))
end

-- The ticks that a grant still holds of a backlog, and whether it is the last one.
-- `same` is whether both were counted by the same numbers. A slot that was reserved and
-- has not begun is held only as long as it is the last: later ones stay where they are.
-- Slots and permits of other numbers are held whole or not at all.
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
  if same and not spaced then return math.min(grant.permits * per, held, ticks), last end
  return math.min(grant.permits, math.floor(held / own_per), math.floor(ticks / per)) * per, last
end

-- Lets a meter owe permits: `level` returns its backlog, and how long until the last
-- reservation begins, from when on it holds as much as it can.
local function can_owe(meter, level, most, rate, per)
  local function beyond()
    local backlog, lead = level()
    return (backlog - most - lead * rate) / per
  end

  function meter.room() return math.max(0, math.floor(-beyond())) end

  function meter.debt() return math.max(0, math.ceil(beyond())) end

  function meter.most_owed() return math.max(0, math.floor((most + MOST_AHEAD - level()) / per)) end

  function meter.owe(permits) meter.take(permits) end
end
