-- Takes permits from a sliding window, or says when they will be free.
--
-- KEYS[1..3]  hash, counter, log: see config.lua and log.lua
-- ARGV[1]  integer  permits to take, at least 1
-- ARGV[2]  integer  our rate, permits per window
-- ARGV[3]  integer  our window, ms
-- ARGV[4]  0 or 1   our mode: overall, per client
-- ARGV[5]  integer  our keep-alive, ms; 0 for none
-- ARGV[6]  integer  revision of our configuration
-- ARGV[7]  integer  since when it is ours, us by this server's clock
-- ARGV[8]  `steady`; on the first use of a key `reset` or `carry`; when we have
--          no numbers of our own `follow` and from then on `following`
-- ARGV[9]  bytes    an id for the log that nobody else uses
--
-- Returns { outcome, remaining, retry_after (ms), reset_after (ms), now (ms),
--           rate, interval (ms), type, event, ahead (ms) }; outcome as named
-- below, ahead is how far in the future a peer with a wrong clock wrote.
local REFUSED, GRANTED, TOO_MANY, OTHER_MODE, FOREIGN, UNKNOWN = 0, 1, 2, 3, 4, 5

local now = server_time(ARGV[10])
local permits = tonumber(ARGV[1])
local config, event = reconcile(own_config(ARGV), now)
if not config then return { UNKNOWN, 0, 0, 0, now, 0, 0, 0, event, 0 } end
local rate, per = config.rate, config.per

local ahead = 0
local function reply(outcome, free, retry_after, reset_after)
  return { outcome, math.max(0, free), retry_after, reset_after, now,
    rate, per, tonumber(config.mode), event, ahead }
end

if config.mode == '1' then return reply(OTHER_MODE, 0, 0, 0) end
local text = redis.call('GET', KEYS[2])
if text and not tonumber(text) then return reply(FOREIGN, 0, 0, 0) end
if permits > rate then
  -- A peer takes a missing counter for a full one.
  if not text and rebuild_counter(config) == nil then return reply(FOREIGN, 0, 0, 0) end
  return reply(TOO_MANY, rate, 0, 0)
end
local free = integer(text)

-- What is older than a window is free again, a bounded number of members at once.
local expired, released = over(per, now)
if not expired then return reply(FOREIGN, 0, 0, 0) end
if free then free = free + released end
local changed = expired > 0

local score, bucket = now, bucket_of(per)
local entries, used, whole
if not free or changed or event ~= NOTHING or ARGV[8] == 'follow' or free < permits then
  -- Looked through before anything is written: what is foreign is left alone.
  entries, used, whole = read_log(WALK, expired)
  if not entries then return reply(FOREIGN, 0, 0, 0) end
  drop(expired)
  if not whole then
    -- A long log, written by a peer, is made short before it is counted.
    compact(entries, bucket, now)
    free, changed = math.min(rate - used, free or 0), true
  elseif not free or free + used >= rate then
    changed = changed or free ~= rate - used
    free = rate - used
  else
    -- The counter knows of permits that the log lost: they count from now.
    redis.call('ZADD', KEYS[3], now, struct.pack('<Bc0I', #ARGV[9] + 1, ARGV[9] .. '?', rate - used - free))
    changed = true
  end
  -- The clock stepped back: what lies in the future counts from now.
  if #entries > 0 and entries[#entries].score > now + bucket and (expired > 0 or free < permits) then
    ahead = math.ceil(entries[#entries].score - now)
    restamp(entries, now, now + bucket)
  end
end

local granted = free >= permits
if granted then
  local member = struct.pack('<Bc0I', #ARGV[9], ARGV[9], permits)
  if rate > MERGE_AT and redis.call('ZCARD', KEYS[3]) >= MERGE_AT then
    score = math.ceil(now / bucket) * bucket
    local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
    local already = permits_of(last[1])
    if tonumber(last[2]) == score and already and already + permits <= 4294967295 then
      redis.call('ZREM', KEYS[3], last[1])
      member = string.sub(last[1], 1, -5) .. struct.pack('<I', already + permits)
    end
  end
  redis.call('ZADD', KEYS[3], score, member)
  free = free - permits
end
if granted or changed then store_counter(free, config) end

if granted then
  return reply(GRANTED, free, 0, math.max(score + per - now, 0))
end
return reply(REFUSED, free, wait_for(entries, permits - free, per, now), full_after(per, now))
