-- Starts a call for several limiters, in groups that are decided in order.
--
-- KEYS  three for each limiter, which are its KEYS[1..3]
-- ARGV  seven for each limiter, which are its ARGV[1..7]: see limiter.lua. Then the time to use
--       in a test and the windows of calendars, which are ARGV[8] and ARGV[9]
--
-- Returns a reply for each limiter.
local KEYS, ARGV, LIMITERS = KEYS, ARGV, #KEYS / 3
local PACKED = '<I8I8I8I8I8I8I8' -- a reply of a fast path, with one wait

-- The replies, or that to a single limiter, which needs no list; the first limiter of a group, whether
-- the fast paths suffice for the group so far, what they will write, and what decides a group otherwise.
local replies, only, first, ready, plans, decide = {}, nil, 1, true, nil, nil

-- The rule and the stored configuration of the previous limiter, as texts, and what they mean: most
-- limiters of a call have the same ones, and parsing takes time.
local rule_text, rate_text, per_text, alive_text, algorithm, parameter
local calendars, known_rate, known_per, known_alive, is_stored
-- The previous expiry and its text, because formatting a number is slow.
local expiry, expiry_text
