-- Reads the requests of callers to the n-th limiter.
--
-- ARGV[1]  costs    permits to take, for each caller: see costs.lua. `&` in front joins the
--                   limiter to the one before: each caller takes from both or from neither
-- ARGV[2]  integer  our rate, permits per window
-- ARGV[3]  integer  our window, ms
-- ARGV[4]  our mode, 0 overall or 1 per client, and our algorithm unless it is a
--          sliding window: `0/fixed_window`, `0/token_bucket/20`, with a warm-up in
--          ms `0/token_bucket/w4000`, or with a calendar
--          `0/fixed_window/day@Europe/Vienna`
-- ARGV[5]  since when we have our configuration, us by this server's clock, in seven bytes, the lowest
--          one first; our id in eight, zeros if we send no heartbeats: see members.lua; our
--          keep-alive, ms, 0 for none, in digits; and after a space our revision, unless it is 0
-- ARGV[6]  `steady`; `abandon ID` if the process that announced the stored configuration is gone;
--          on the first use of a key `reset` or `carry`; without a configuration of our own
--          `follow`, and from then on `following`
-- ARGV[7]  bytes    a unique id for the log member
--
-- A reply is { kind, free, reset_after (ms), now (ms), rate, interval (ms), rule, event,
-- ahead (ms), more_after (ms), moved (ticks), wait (ms)... }. Kinds are named in open.lua; free is
-- what one request could have had before this call; rule is 0 if mode and algorithm are ours, else
-- a text as ARGV[4]; ahead is how far in the future a peer with a wrong clock wrote; more_after is
-- when more permits are free than are left, 0 if all are; moved is `total` in moves.lua; then, if
-- counted, a wait for each different cost. A fast path counts under our configuration, so its reply
-- is only { event, free, reset_after, now, more_after, moved, wait }. These are packed, in eight
-- bytes each, and are no list if they are alone, since lists take time.
--
-- Each call creates the functions of a script again. So most calls are decided without functions,
-- by these variables: whether the stored configuration needs no reconciliation (`settled`), what
-- happened (`event`), and what grant.lua writes, including the fields of the rule of a new limiter
-- (`fresh`).
local key, word = n * 3 - 2, n * 7 - 6
local last = n == LIMITERS or ARGV[word + 7] == '1' or string.byte(ARGV[word + 7]) ~= 38 -- `&`
local alone = last and first == n
local cost, count = ARGV[word] == '1' and 1 or tonumber(ARGV[word]), 1
if not cost then
  cost, count = string.match(ARGV[word], '^&?(%d+)%*?(%d*)$')
  cost, count = tonumber(cost), tonumber(count) or 1
end
local rule, how = ARGV[word + 3], ARGV[word + 5]
local rate, per, keep_alive, stored, settled, text, reply
local member, score, gone, left, fresh, state, lasts, renews, beaten
local expired, event = 0, 0
ready = ready and (cost or alone)
