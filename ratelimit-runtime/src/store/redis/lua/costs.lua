-- Reads what several callers ask for, and walks it in order.
--
-- KEYS[3]  zset  the log, for the waits
-- ARGV[1]  the costs as runs of equal ones: `3`, or `1*200,5,1*55`

-- A list of { cost, count }.
local function read_costs(text)
  local runs = {}
  for run in string.gmatch(text, '[^,]+') do
    local cost, count = string.match(run, '^(%d+)%*(%d+)$')
    runs[#runs + 1] = { cost = tonumber(cost or run), count = tonumber(count or 1) }
  end
  return runs
end

-- What all of them need; more than the rate is never granted.
local function sum_of(runs, rate)
  local sum = 0
  for _, run in ipairs(runs) do
    if run.cost <= rate then sum = sum + run.cost * run.count end
  end
  return sum
end

-- What is granted of so many free permits: to each in turn, if it gets all it asks for.
local function granted_of(runs, free)
  local left = free
  for _, run in ipairs(runs) do
    if run.cost > 0 and run.cost <= left then
      left = left - run.cost * math.min(run.count, math.floor(left / run.cost))
    end
  end
  return free - left
end

-- Appends to a reply the milliseconds until each of the different costs could
-- be granted again, in the order they were asked for: 0 when it could be now, or
-- never. The log, which is read when it is not given, is gone through once,
-- oldest first; what it cannot explain is free after a window at the latest.
local function append_waits(reply, runs, rate, free, per, now, log)
  local waits, short, found = {}, {}, 0
  for _, run in ipairs(runs) do
    if not waits[run.cost] then
      local waiting = run.cost > free and run.cost <= rate
      waits[run.cost] = waiting and per or 0
      if waiting then short[#short + 1] = run.cost end
    end
  end
  table.sort(short)
  for _, entry in ipairs(short[1] and (log or read_log(WALK)) or {}) do
    free = free + entry.permits
    while found < #short and short[found + 1] <= free do
      found = found + 1
      waits[short[found]] = math.max(1, math.ceil(entry.score) + per - now)
    end
  end
  for _, run in ipairs(runs) do
    reply[#reply + 1] = waits[run.cost]
    waits[run.cost] = nil
  end
  return reply
end
