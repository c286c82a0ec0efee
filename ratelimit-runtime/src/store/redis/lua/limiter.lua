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
-- ARGV[5]  `KEEP_ALIVE REVISION:SINCE`: our keep-alive, ms, 0 for none; the revision of our
--          configuration, and since when it is ours, us by this server's clock. Behind it `@` and
--          our id if we send heartbeats: see members.lua
-- ARGV[6]  `steady`; `abandon ID` when the process is gone that announced what is stored; on the first use of a key `reset` or `carry`; when we have
--          no numbers of our own `follow` and from then on `following`
-- ARGV[7]  bytes    a unique id for the log member
--
-- A reply is { kind, free, reset_after (ms), now (ms), rate, interval (ms), rule, event,
-- ahead (ms), more_after (ms), moved (ticks), wait (ms)... }. Kinds are named in group.lua; free is what one
-- request could have had before this call; rule is 0 where mode and algorithm are ours, else
-- a text as ARGV[4]; ahead is how far in the future a peer with a wrong clock wrote; more_after
-- is when more than what is left is free, 0 if all is; moved is what moves.lua has in `total`;
-- then, when counted, a wait for each different cost. What few steps decided is counted by our numbers, so
-- that { event, free, reset_after, now, more_after, moved, wait } say it all. These are packed, in eight
-- bytes each, and are no list if they are alone, since lists take time.
--
-- Each call makes the functions of a script anew. So most calls are decided without any, by
-- these variables: whether the stored numbers need no reconciliation (`settled`), what happened (`event`),
-- and what a grant writes, which grant.lua does: of a limiter that is new, the fields of its rule too (`fresh`).
local key, word = n * 3 - 2, n * 7 - 6
local last = n == LIMITERS or string.byte(ARGV[word + 7]) ~= 38 -- `&`
local alone = last and first == n
local cost, count = ARGV[word] == '1' and 1 or tonumber(ARGV[word]), 1
if not cost then
  cost, count = string.match(ARGV[word], '^&?(%d+)%*?(%d*)$')
  cost, count = tonumber(cost), tonumber(count) or 1
end
local rule, how = ARGV[word + 3], ARGV[word + 5]
local rate, per, keep_alive, stored, settled, text, reply
local member, score, gone, left, fresh, state, lasts, renews, vouches
local expired, event = 0, 0
ready = ready and (cost or alone)
