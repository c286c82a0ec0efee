-- Starts a call in which some limiters have a penalty: blocked limiters grant nothing.
--
-- KEYS  three for each limiter, which are its KEYS[1..3]; then the penalty of each: see penalty.lua
-- ARGV  seven for each limiter, which are its ARGV[1..7]; then three for each: the `after`, the
--       first block and the longest block (ms), all empty if it has no penalty; then what is
--       ARGV[8] and ARGV[9] otherwise
--
-- A blocked limiter gets a cost above any capacity, so that nothing is taken from it or from the
-- limiters decided with it, whose waits do not change. Its own waits are those of the costs below
-- 2^52: see costs.lua.
local GUARDED = #KEYS / 4
local PENALTIES, TERMS = { unpack(KEYS, GUARDED * 3 + 1) }, { unpack(ARGV, GUARDED * 7 + 1) }
local KEYS, ARGV = { unpack(KEYS, 1, GUARDED * 3) }, { unpack(ARGV, 1, GUARDED * 7) }
for n = GUARDED * 3 + 1, #TERMS do ARGV[#ARGV + 1] = TERMS[n] end

local function more_than_all(cost, times)
  return string.format('%.0f', cost + 2 ^ 52) .. times
end

local blocked = {}
for n = 1, GUARDED do
  local block, up_to = tonumber(TERMS[n * 3 - 1]), tonumber(TERMS[n * 3])
  -- A value of another type does not block, and the next rejection replaces it.
  local left = block
    and blocked_for(read_penalty(redis.pcall('GET', PENALTIES[n])), block, up_to, now)
  if left and left > 0 then
    blocked[n] = left
    ARGV[n * 7 - 6] = string.gsub(ARGV[n * 7 - 6], '(%d+)(%*?%d*)', more_than_all)
  end
end
