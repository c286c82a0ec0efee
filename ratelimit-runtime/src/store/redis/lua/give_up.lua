-- Gives a reservation back that nothing was taken after: the state is what it left. It is
-- changed by its own numbers, whichever are in force now.
--
-- KEYS[1..3]  as for release.lua
-- ARGV[1]  integer  permits that were reserved
-- ARGV[2]  integer  EMPTY_AT, as reserve.lua told it; see bucket.lua
-- ARGV[3]  integer  TICKS
-- ARGV[4]  integer  ticks that were stored before
--
-- Returns what release.lua returns.
local DONE = 1

local text = redis.call('GET', KEYS[2])
local bucket, warm = read_bucket(text), read_warm(text)
local state, permits = bucket or warm, tonumber(ARGV[1])
local left_at = bucket and bucket.empty_at or warm and warm.free_at
if left_at ~= tonumber(ARGV[2]) or state.ticks ~= tonumber(ARGV[3]) then return { DONE, 0, 0 } end
local config, known = stored_config()
if not known or config.mode == '1' then return { DONE, 0, 0 } end

config.rate, config.per, config.debt = state.rate, state.per, nil
local ahead, lead, back = math.max(0, state.at - now), lead_of(state, now), permits
local meter
if warm then
  config.warm_up = warm.warm_up
  meter = warm_meter(config, pending_of(warm, now), stored_of(warm, now), now, ahead, lead)
  meter.undo(permits, tonumber(ARGV[4]))
else
  meter = bucket_meter(config, backlog_of(bucket, now), now, ahead, lead)
  back = meter.undo(permits)
end
store_meter(meter, config, now)
return { DONE, back, 0 }
