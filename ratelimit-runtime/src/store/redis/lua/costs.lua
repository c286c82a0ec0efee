-- Reads the costs of several callers, and walks them in order.
--
-- KEYS[3]  zset  the log, for the waits
-- ARGV[1]  the costs as runs of equal ones: `3`, or `1*200,5,1*55`

local STEP = 16 -- members read in one go for a wait

-- Returns a list of { cost, count, asked }. The last is the cost of a request to a blocked limiter
-- too: see guard.lua.
local function read_costs(text)
  local runs = {}
  for run in string.gmatch(text, '[%d*]+') do
    local cost, count = string.match(run, '^(%d+)%*(%d+)$')
    cost = tonumber(cost or run)
    runs[#runs + 1] = { cost = cost, count = tonumber(count or 1), asked = cost % 2 ^ 52 }
  end
  return runs
end

-- Returns the sum of all costs, without those above the rate, which are never granted.
local function sum_of(runs, rate)
  local sum = 0
  for _, run in ipairs(runs) do
    if run.cost <= rate then sum = sum + run.cost * run.count end
  end
  return sum
end

-- Appends to a reply the milliseconds until each of the different costs could be granted again, in
-- the order of the requests: 0 if it could be granted now, or never. The log is read once, oldest
-- first, as far as needed; permits that it cannot explain are free after a window at the latest.
-- Debt is paid first, and the permits that pay it are free again a window later. `log` replaces the
-- stored one. Returns the reply, and whether a caller has to wait.
local function append_waits(reply, runs, rate, free, per, now, debt, log)
  local waits, short, found = {}, {}, 0
  for _, run in ipairs(runs) do
    local ahead = run.asked + debt
    if not waits[run.asked] and ahead > free and run.asked <= rate then
      local windows = math.floor((ahead - 1) / rate)
      waits[run.asked] = per + windows * per
      short[#short + 1] = { cost = run.asked, last = ahead - windows * rate, later = windows * per }
    else
      waits[run.asked] = waits[run.asked] or 0
    end
  end
  table.sort(short, function(a, b) return a.last < b.last end)
  local flat, i, rank, after = log or {}, 1, log and WALK or 0, 0
  while found < #short do
    local wanted = short[found + 1]
    if wanted.last <= free then
      found = found + 1
      waits[wanted.cost] = after + wanted.later
    elseif flat[i] then
      free = free + (permits_of(flat[i]) or 0)
      after, i = math.max(1, math.ceil(tonumber(flat[i + 1])) + per - now), i + 2
    elseif rank < WALK then
      flat, i = redis.call('ZRANGE', KEYS[3], rank, rank + STEP - 1, 'WITHSCORES'), 1
      rank = #flat < STEP * 2 and WALK or rank + STEP
    else
      break
    end
  end
  for _, run in ipairs(runs) do
    reply[#reply + 1] = waits[run.asked] and countable(waits[run.asked])
    waits[run.asked] = nil
  end
  return reply, #short > 0
end

-- Returns the milliseconds until more permits are free than now, as for `append_waits`; 0 if all are free.
local function more_than(free, rate, per, now, debt, log)
  local more = math.max(0, free - debt) + 1
  if more > rate then return 0 end
  return append_waits({}, { { asked = more } }, rate, free, per, now, debt, log)[1]
end
