-- Reads what several callers ask for, and walks it in order.
--
-- KEYS[3]  zset  the log, for the waits
-- ARGV[1]  the costs as runs of equal ones: `3`, or `1*200,5,1*55`

local STEP = 16 -- members read in one go for a wait

-- A list of { cost, count }.
local function read_costs(text)
  local runs = {}
  for run in string.gmatch(text, '[%d*]+') do
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

-- Appends to a reply the milliseconds until each of the different costs could
-- be granted again, in the order they were asked for: 0 when it could be now, or
-- never. The log is gone through once, oldest first and from this rank on, as far
-- as it takes; what it cannot explain is free after a window at the latest. What is owed
-- is paid first; where both are above the rate this is the least that it takes.
-- Returns the reply, and whether anybody has to wait.
local function append_waits(reply, runs, rate, free, per, now, rank, debt)
  local waits, short, found = {}, {}, 0
  for _, run in ipairs(runs) do
    if not waits[run.cost] then
      local waiting = run.cost + debt > math.min(free, rate) and run.cost <= rate
      waits[run.cost] = waiting and per or 0
      if waiting then short[#short + 1] = run.cost end
    end
  end
  table.sort(short)
  local last = rank + WALK
  while found < #short and rank < last do
    local flat = redis.call('ZRANGE', KEYS[3], rank, rank + STEP - 1, 'WITHSCORES')
    for i = 1, #flat, 2 do
      free = free + (permits_of(flat[i]) or 0)
      while found < #short and math.min(short[found + 1] + debt, rate) <= free do
        found = found + 1
        waits[short[found]] = math.max(1, math.ceil(tonumber(flat[i + 1])) + per - now)
      end
    end
    rank = #flat < STEP * 2 and last or rank + STEP
  end
  for _, run in ipairs(runs) do
    reply[#reply + 1] = waits[run.cost]
    waits[run.cost] = nil
  end
  return reply, #short > 0
end

-- The milliseconds until more permits are free than now, as `append_waits` has it; 0 when all are.
local function more_than(free, rate, per, now, rank, debt)
  local more = math.max(0, free - debt) + 1
  if more > rate then return 0 end
  return append_waits({}, { { cost = more, count = 1 } }, rate, free, per, now, rank, debt)[1]
end
