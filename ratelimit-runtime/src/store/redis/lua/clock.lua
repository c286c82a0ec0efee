-- Reads the server's time, so that no client's clock can affect a limit.
--
-- Time is read once per script, because it advances while a script runs. Tests pass it as the last
-- argument of any script; the runtime never does.
--
-- ARGV[TIME_AT]  integer  the time to use in a test, ms; after all arguments that any script of
--                         the same keys takes: see script.rs
--
-- Sets `now`, in whole milliseconds since the Unix epoch, `micros`, the microseconds since then,
-- and `time`, the reply that both were read from.
local now, micros, time = ARGV[TIME_AT] and tonumber(ARGV[TIME_AT]), 0, nil
if not now then
  time = redis.call('TIME')
  local part = time[2] + 0
  micros = part % 1000
  now = time[1] * 1000 + (part - micros) / 1000
end
