-- Takes permits, or says when they will be free.
--
-- KEYS[1..3]  hash, counter or another rule's state, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  costs    permits to take, for each caller: see costs.lua
-- ARGV[2]  integer  our rate, permits per window
-- ARGV[3]  integer  our window, ms
-- ARGV[4]  our mode, 0 overall or 1 per client, and our algorithm where it is no
--          sliding window: `0/fixed_window`, `0/token_bucket/20`
-- ARGV[5]  integer  our keep-alive, ms; 0 for none
-- ARGV[6]  integer  revision of our configuration
-- ARGV[7]  integer  since when it is ours, us by this server's clock
-- ARGV[8]  `steady`; on the first use of a key `reset` or `carry`; when we have
--          no numbers of our own `follow` and from then on `following`
-- ARGV[9]  bytes    an id for the log that nobody else uses
--
-- Returns { kind, free, reset_after (ms), now (ms), rate, interval (ms), rule,
--           event, ahead (ms), wait (ms)... }; kind as named below, free is what
-- one request could have had before anybody took, rule is 0 where mode and
-- algorithm are ours, else a text as ARGV[4]; ahead is how far in the future a
-- peer with a wrong clock wrote; then, when counted, a wait for each different cost.
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN = 1, 3, 4, 5

local config, event
if settled then
  config = { rate = rate, per = per, mode = '0', burst = 0, warm_up = 0, keep_alive = integer(stored[4]) or 0 }
  event = NOTHING
else
  config, event = reconcile(own_config(ARGV), now)
  if not config then return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, event, 0) end
  rate, per = config.rate, config.per
end
local ahead = 0
local function reply(kind, free, reset_after)
  return reply_of(kind, free, reset_after, now, config, event, ahead)
end

if config.mode == '1' then return reply(OTHER_MODE, 0, 0) end
if text == nil then text = redis.call('GET', KEYS[2]) end
local runs = read_costs(ARGV[1])
if is_metered(config, text) then
  local meter, found = read_meter(config, text, now)
  if not meter then return reply(FOREIGN, 0, 0) end
  local free = meter.free()
  ahead = meter.ahead
  if take_all(meter, runs) or found or ahead > 0 then store_meter(meter, config, now) end
  return append_meter_waits(reply(COUNTED, free, meter.full_after()), runs, meter)
end
text = as_log(text, rate, ARGV[9], now)
if text and not tonumber(text) then return reply(FOREIGN, 0, 0) end
local bucket, wanted, free = bucket_of(per), sum_of(runs, rate), integer(text)

-- What is older than a window is free again, a bounded number of members at once.
local expired, released = 0, 0
local fresh = not text and redis.call('ZCARD', KEYS[3]) == 0
if not fresh then expired, released = over(per, now) end
if not expired then return reply(FOREIGN, 0, 0) end
free = fresh and rate or free and free + released
local changed, agreed, members = fresh or expired > 0, false, 0

local doubtful = not free or expired > 0 or event ~= NOTHING or ARGV[8] == 'follow'
if not fresh and (doubtful or (free < wanted and not is_counted(rate, text, now + bucket))) then
  -- Looked through before anything is written: what is foreign is left alone.
  local used, whole
  used, whole, members = count(expired)
  if not used then return reply(FOREIGN, 0, 0) end
  drop(expired)
  agreed = whole
  if not whole then
    -- A long log, written by a peer, is made short before it is counted.
    compact(read_log(), bucket, now)
    free, changed = math.min(rate - used, free or 0), true
  elseif not free or free + used >= rate then
    changed = changed or free ~= rate - used
    free = rate - used
  else
    -- The counter knows of permits that the log lost: they count from now.
    redis.call('ZADD', KEYS[3], now, struct.pack('<Bc0I', #ARGV[9] + 1, ARGV[9] .. '?', rate - used - free))
    changed = true
  end
  if whole and used > 0 and (expired > 0 or free < wanted) then ahead = restamp(now, now + bucket) end
end

local before, taken, score = free, granted_of(runs, free), nil
if taken > 0 then
  score = record(taken, rate, bucket, now)
  free = free - taken
end
if taken > 0 or changed then store_counter(free, config) end

-- A grant leaves the note to the first refusal, unless that had much to count.
local noting = agreed and (taken == 0 or members > 16)
local newest = (taken == 0 or noting) and newest_score()
local full = score and math.max(score + per - now, 0) or full_after(newest, per, now)
local answer, short = append_waits(reply(COUNTED, before, full), runs, rate, free, per, now, 0)
if noting and short then note_counted(rate, free, newest) end
return answer
