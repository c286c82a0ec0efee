-- Gives a reservation back that nothing was taken after: the state is what it left.
--
-- KEYS[1..3]  as for release.lua, which goes on from here for a plain bucket
-- ARGV[1]  integer  permits that were reserved
-- ARGV[2]  integer  EMPTY_AT, as reserve.lua told it; see bucket.lua
-- ARGV[3]  integer  TICKS
-- ARGV[4]  integer  ticks that were stored before
--
-- Returns what release.lua returns.
local last = redis.call('GET', KEYS[2])
local bucket, warm = read_bucket(last), read_warm(last)
local left_at = bucket and bucket.empty_at or warm and warm.free_at
if left_at ~= tonumber(ARGV[2]) or (bucket or warm).ticks ~= tonumber(ARGV[3]) then
  return { 1, 0, 0 }
end
if warm then
  local found, whole = stored_config()
  if not whole or found.mode == '1' or not fits_warm(found, warm) then return { 1, 0, 0 } end
  local meter = read_meter(found, last, now)
  meter.undo(tonumber(ARGV[1]), tonumber(ARGV[4]))
  store_meter(meter, found, now)
  return { 1, tonumber(ARGV[1]), 0 }
end
