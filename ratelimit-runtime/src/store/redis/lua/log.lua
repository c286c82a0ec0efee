-- Reads and writes the log: who took how many permits, and when.
--
-- A member is Redisson's: one byte with the length of an id, the id, and the
-- permits as a little-endian u32; its score is the time in milliseconds.
--
-- KEYS[3]  zset  the log
local WALK = 512   -- members read in one go
local MERGE_AT = 100 -- members beyond which grants share time buckets

-- The permits of a member, or nil when it was not written by a limiter.
local function permits_of(member)
  if #member < 5 or string.byte(member) + 5 ~= #member then return nil end
  local _, permits = struct.unpack('<Bc0I', member)
  return permits
end

local function bucket_of(per)
  return math.max(1, math.floor(per / 50))
end

-- Sums the members a range command returned without scores, or nil.
local function sum(members)
  local total = 0
  for _, member in ipairs(members) do
    local permits = permits_of(member)
    if not permits then return nil end
    total = total + permits
  end
  return total
end

-- Reads the log, oldest first, as { permits, score } pairs with their sum;
-- nil when a member is foreign. A log longer than `limit` is read in part.
local function read_log(limit)
  local flat = redis.call('ZRANGE', KEYS[3], 0, limit - 1, 'WITHSCORES')
  local entries, used = {}, 0
  for i = 1, #flat, 2 do
    local permits = permits_of(flat[i])
    if not permits then return nil end
    used = used + permits
    entries[#entries + 1] = { permits = permits, score = tonumber(flat[i + 1]), member = flat[i] }
  end
  return entries, used, #entries < limit
end

-- The milliseconds until `need` more permits are free, counted oldest first.
-- What the log cannot explain is free after a whole window at the latest.
local function wait_for(entries, need, per, now)
  for _, entry in ipairs(entries) do
    need = need - entry.permits
    if need <= 0 then return math.max(1, math.ceil(entry.score) + per - now) end
  end
  return per
end

-- The milliseconds until the whole quota is free again.
local function full_after(per, now)
  local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  if not last[2] then return 0 end
  return math.max(0, math.ceil(tonumber(last[2])) + per - now)
end

-- Makes what is dated later than `latest` count from now.
local function restamp(entries, now, latest)
  for _, entry in ipairs(entries) do
    if entry.score > latest then
      redis.call('ZADD', KEYS[3], now, entry.member)
      entry.score = now
    end
  end
  table.sort(entries, function(a, b) return a.score < b.score end)
end
