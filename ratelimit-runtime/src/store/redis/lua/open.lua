-- Opens a limiter, takes permits from one or several open ones, and closes it with a reply.
--
-- KEYS[1..3], ARGV[1..7]  of the limiter: see limiter.lua
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN, NO_WINDOW, FAILED = 1, 3, 4, 5, 6, 7

-- Reads a limiter under the active configuration, and repairs what peers left. It has a meter, or
-- `kind` is the reason why not. `text` is the counter, if it was read.
local function open(config, event, text)
  local limiter = {
    kind = COUNTED, config = config or NO_CONFIG, event = event, runs = read_costs(ARGV[1]),
  }
  if not config or config.mode == '1' then
    limiter.kind = config and OTHER_MODE or UNKNOWN
    return limiter
  end
  if is_metered(config) then
    limiter.meter, limiter.found = read_meter(config, now)
  else
    limiter.meter = sliding_meter(config, text, limiter.runs, event, now)
  end
  if not limiter.meter then limiter.kind = FOREIGN end
  limiter.free = limiter.meter and limiter.meter.free()
  return limiter
end

-- Takes from all limiters for each caller in order, if each can grant its request. Their runs
-- belong to the same callers.
local function take_all(limiters)
  for n, run in ipairs(limiters[1].runs) do
    local fitting = run.count
    for _, limiter in ipairs(limiters) do
      fitting = math.min(fitting, math.floor(limiter.meter.free() / limiter.runs[n].cost))
      if limiter.meter.spaced then fitting = math.min(fitting, 1) end
    end
    for _, limiter in ipairs(fitting > 0 and limiters or {}) do
      limiter.meter.take(limiter.runs[n].cost * fitting)
      limiter.taken = true
    end
  end
end

-- Writes what was taken and repaired, and returns the reply.
local function commit(limiter)
  local config, event, meter = limiter.config, limiter.event, limiter.meter
  if not meter then
    -- The configuration of what each process counts expires, too.
    if config.renews then renew(config, 0) end
    return reply_of(limiter.kind, 0, 0, now, config, event, 0)
  end
  if meter.store then
    meter.store()
  else
    local counts = limiter.taken or limiter.found
    store_meter(meter, config, counts or meter.ahead > 0, counts)
  end
  local more = (meter.more_after or more_after)(meter)
  local reply =
    reply_of(COUNTED, limiter.free, meter.full_after(), now, config, event, meter.ahead, more,
      moved_by(meter))
  return (meter.append_waits or append_meter_waits)(reply, limiter.runs, meter)
end
