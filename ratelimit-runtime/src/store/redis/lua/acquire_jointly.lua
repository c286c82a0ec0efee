-- Takes permits of several limiters at one time: for each caller of all of them, or of
-- none.
--
-- KEYS[1..3], ARGV[1..9]  of each limiter as for acquire.lua: see limiters.lua. The runs
--                         of all of them have the same counts, one for each run of callers
--
-- Returns what acquire.lua returns, for each limiter, or once where windows of a calendar
-- were not sent. Nothing is taken when one of them is not counted.
local function turn_to(n)
  KEYS = { unpack(ALL_KEYS, n * 3 - 2, n * 3) }
  ARGV = { unpack(ALL_ARGV, n * 9 - 8, n * 9) }
  ARGV[11] = ALL_ARGV[LIMITERS * 9 + 2]
end

local limiters = {}
-- Everything is read before anything is written: a key of another type raises here.
for n = 1, LIMITERS do
  turn_to(n)
  local own, stored, whole = own_config(ARGV), stored_config()
  local lacking = lacks_window(own, now) and own or whole and lacks_window(stored, now) and stored
  if lacking then return { NO_WINDOW, 0, 0, now, 0, 0, rule_of(lacking) } end
  limiters[n] = { stored = stored, whole = whole, text = redis.call('GET', KEYS[2]) }
  redis.call('ZCARD', KEYS[3])
end

local counted = true
for n, read in ipairs(limiters) do
  turn_to(n)
  local config, event = reconcile(own_config(ARGV), now, read.stored, read.whole)
  local text = read.text
  -- Whatever happened may have made the state another.
  if event ~= NOTHING then text = nil end
  limiters[n] = open(config, event, text, now)
  counted = counted and limiters[n].meter
end
if counted then take_all(limiters) end

local replies = {}
for n, limiter in ipairs(limiters) do
  turn_to(n)
  replies[n] = commit(limiter, now)
end
return replies
