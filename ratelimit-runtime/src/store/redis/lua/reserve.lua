-- Takes permits of a bucket now or in advance: who comes later comes after.
--
-- KEYS[1..3]  hash, another rule's state, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  integer  permits to take
-- ARGV[2..8]        as for limiter.lua
-- ARGV[9]  integer  how long the caller can wait, ms
--
-- Returns what limiter.lua returns, as of after the permits were taken; then, when
-- counted, { wait until the same could be granted again (ms), taken (1 or 0), wait
-- of this caller (ms), EMPTY_AT, TICKS, ticks that were stored before }: see
-- bucket.lua, and warm_up.lua, where it is FREE_AT. A rule in force that
-- knows no reservations takes nothing.
local MOST_AHEAD = 2 ^ 51 -- ticks
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN = 1, 3, 4, 5

local config, event = reconcile(own_config(ARGV), now, stored_config())
if not config then return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, event, 0) end
if config.mode == '1' then return reply_of(OTHER_MODE, 0, 0, now, config, event, 0) end
local cost, answer = tonumber(ARGV[1]), nil
if config.rate == 0 or (config.algorithm ~= 'token_bucket' and config.algorithm ~= 'leaky_bucket') then
  answer = reply_of(COUNTED, 0, 0, now, config, event, 0)
  for i = 1, 6 do answer[#answer + 1] = 0 end
  return answer
end
local meter, found = read_meter(config, redis.call('GET', KEYS[2]), now)
if not meter then return reply_of(FOREIGN, 0, 0, now, config, event, 0) end

local stored = meter.stored and meter.stored() or 0
local wait = cost <= meter.capacity and meter.wait(cost) or nil
local within = math.min(tonumber(ARGV[9]), math.floor(MOST_AHEAD / config.rate))
if wait and wait > within then wait = nil end
if wait then meter.take(cost) end
if wait or found or meter.ahead > 0 then store_meter(meter, config, now) end
local text = wait and meter.text() or nil
local bucket, warm = read_bucket(text), read_warm(text)
answer = reply_of(COUNTED, meter.free(), meter.full_after(), now, config, event, meter.ahead)
answer[#answer + 1] = cost <= meter.capacity and meter.wait(cost) or 0
answer[#answer + 1] = wait and 1 or 0
answer[#answer + 1] = wait or 0
answer[#answer + 1] = bucket and bucket.empty_at or warm and warm.free_at or 0
answer[#answer + 1] = bucket and bucket.ticks or warm and warm.ticks or 0
answer[#answer + 1] = warm and stored or 0
return answer
