-- Takes permits from a bucket now or in advance, for each caller in order until one of them cannot
-- wait that long; later callers are scheduled after.
--
-- KEYS[1..3]  hash, counter, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  costs    permits to take, for each caller: see costs.lua
-- ARGV[2..6]        as for limiter.lua
-- ARGV[7]  integer  how long each caller can wait, ms
--
-- Returns what limiter.lua returns, as of after the permits were taken; then, if counted, for each
-- caller { wait until the same could be granted again (ms), taken (1 or 0), wait of this caller
-- (ms), EMPTY_AT, TICKS, the LAST before, or 0 }: see bucket.lua, and warm_up.lua, which has FREE_AT
-- instead. An active rule without reservations takes nothing.
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN = 1, 3, 4, 5

local config, event = reconcile(own_config(ARGV), now, stored_config())
if not config then return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, event, 0) end
if config.mode == '1' then return reply_of(OTHER_MODE, 0, 0, now, config, event, 0) end
local callers = {}
for _, run in ipairs(read_costs(ARGV[1])) do
  for _ = 1, run.count do callers[#callers + 1] = run end
end
if config.rate == 0 or (config.algorithm ~= 'token_bucket' and config.algorithm ~= 'leaky_bucket') then
  local answer = reply_of(COUNTED, 0, 0, now, config, event, 0)
  for _ = 1, #callers * 6 do answer[#answer + 1] = 0 end
  return answer
end
local meter, found = read_meter(config, now)
if not meter then return reply_of(FOREIGN, 0, 0, now, config, event, 0) end

local within = math.min(tonumber(ARGV[7]), math.floor(MOST_AHEAD / config.rate))
local reserved, taken = {}, false
for n, caller in ipairs(callers) do
  local cost = caller.cost
  local wait = cost <= meter.capacity and meter.wait(cost)
  if not wait or wait > within then break end
  meter.take(cost)
  local before = meter.promise(cost, wait)
  local text = meter.text()
  local bucket, warm = read_bucket(text), read_warm(text)
  reserved[n] = { 1, wait, (bucket and bucket.empty_at or warm.free_at), (bucket or warm).ticks,
    before > 0 and now + before or 0 }
  taken = true
end
store_meter(meter, config, taken or found or meter.ahead > 0, taken or found)
local answer = reply_of(COUNTED, meter.free(), meter.full_after(), now, config, event, meter.ahead,
  more_after(meter), moved_by(meter))
for n, caller in ipairs(callers) do
  answer[#answer + 1] = caller.asked <= meter.capacity and meter.wait(caller.asked) or 0
  for i = 1, 5 do answer[#answer + 1] = reserved[n] and reserved[n][i] or 0 end
end
return answer
