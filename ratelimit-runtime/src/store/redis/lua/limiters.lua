-- Lets what is written for one limiter work on each of several in turn.
--
-- KEYS  three for each limiter; KEYS[1..3] are those in turn
-- ARGV  nine for each limiter, the time to go by in a test, and the windows of calendars;
--       ARGV[1..9] are those in turn, ARGV[10] that time and ARGV[11] the windows
--
-- The names hide the server's own from everything after.
local ALL_KEYS, ALL_ARGV = KEYS, ARGV
local LIMITERS = #ALL_KEYS / 3
local KEYS, ARGV = {}, { [10] = ALL_ARGV[LIMITERS * 9 + 1] }
