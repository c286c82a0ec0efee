-- Tells the time: the server's own, so that no client's clock can bend a limit.
--
-- Time is read once per script, because it goes on while a script runs. Tests
-- give it as the last argument of any script; the runtime never does.
--
-- ARGV[10]  integer  the time to use in a test, ms; behind the words of each limiter where a
--                   call is for several
--
-- Sets `now`, in whole milliseconds since the Unix epoch, and `micros`, the microseconds
-- since then.
local now, micros = tonumber(ARGV[#KEYS * 3 + 1]), 0
if not now then
  local time = redis.call('TIME')
  local part = tonumber(time[2])
  micros = part % 1000
  now = time[1] * 1000 + (part - micros) / 1000
end
