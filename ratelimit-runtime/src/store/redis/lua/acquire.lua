-- Takes permits, or says when they will be free.
--
-- KEYS[1..3]  hash, counter or another rule's state, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  costs    permits to take, for each caller: see costs.lua
-- ARGV[2]  integer  our rate, permits per window
-- ARGV[3]  integer  our window, ms
-- ARGV[4]  our mode, 0 overall or 1 per client, and our algorithm where it is no
--          sliding window: `0/fixed_window`, `0/token_bucket/20`, with a warm-up in
--          ms `0/token_bucket/w4000`, or with a calendar
--          `0/fixed_window/day@Europe/Vienna`
-- ARGV[5]  integer  our keep-alive, ms; 0 for none
-- ARGV[6]  integer  revision of our configuration
-- ARGV[7]  integer  since when it is ours, us by this server's clock
-- ARGV[8]  `steady`; on the first use of a key `reset` or `carry`; when we have
--          no numbers of our own `follow` and from then on `following`
-- ARGV[9]  bytes    an id for the log that nobody else uses
-- ARGV[11] the windows of calendars: see window.lua
--
-- Returns { kind, free, reset_after (ms), now (ms), rate, interval (ms), rule,
--           event, ahead (ms), wait (ms)... }; kind as open.lua names it, free is what
-- one request could have had before anybody took, rule is 0 where mode and
-- algorithm are ours, else a text as ARGV[4]; ahead is how far in the future a
-- peer with a wrong clock wrote; then, when counted, a wait for each different cost.
-- Nothing is written when the windows of the rule around now were not sent.
local config, event
if settled then
  config = { rate = rate, per = per, mode = '0', burst = 0, warm_up = 0, keep_alive = integer(stored[4]) or 0 }
  event = NOTHING
else
  local own = own_config(ARGV)
  if lacks_window(own, now) then return reply_of(NO_WINDOW, 0, 0, now, own, NOTHING, 0) end
  config, event = reconcile(own, now, stored_config())
  -- That of others, which we follow: nothing was written to get here.
  if config and config.mode == '0' and lacks_window(config, now) then
    return reply_of(NO_WINDOW, 0, 0, now, config, NOTHING, 0)
  end
end
local limiter = open(config, event, text, now)
if limiter.meter then take_all({ limiter }) end
return commit(limiter, now)
