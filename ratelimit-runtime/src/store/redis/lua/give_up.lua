-- Gives a reservation back that nothing was taken after: the state is what it left.
--
-- KEYS[1..3]  as for release.lua, which goes on from here
-- ARGV[1]  integer  permits that were reserved
-- ARGV[2]  integer  EMPTY_AT, as reserve.lua told it; see bucket.lua
-- ARGV[3]  integer  TICKS
--
-- Returns what release.lua returns.
local last = read_bucket(redis.call('GET', KEYS[2]))
if not last or last.empty_at ~= tonumber(ARGV[2]) or last.ticks ~= tonumber(ARGV[3]) then
  return { 1, 0, 0 }
end
