-- Reads and writes the log: who took how many permits, and when.
--
-- A member is Redisson's: one byte with the length of an id, the id, and the
-- permits as a little-endian u32; its score is the time in milliseconds.
--
-- KEYS[3]  zset  the log
local WALK = 256     -- members read in one go
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

-- Reads the log, oldest first, as { permits, score, member } entries with their
-- sum; nil when a member is foreign. The first `over` members are looked at and
-- left out. A log longer than `limit` is read in part.
local function read_log(limit, over)
  over = over or 0
  local flat = redis.call('ZRANGE', KEYS[3], 0, over + limit - 1, 'WITHSCORES')
  local entries, used = {}, 0
  for i = 1, #flat, 2 do
    local permits = permits_of(flat[i])
    if not permits then return nil end
    if i > over * 2 then
      used = used + permits
      entries[#entries + 1] = { permits = permits, score = tonumber(flat[i + 1]), member = flat[i] }
    end
  end
  return entries, used, #entries < limit
end

-- The milliseconds until the whole quota is free again.
local function full_after(per, now)
  local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  if not last[2] then return 0 end
  return math.max(0, math.ceil(tonumber(last[2])) + per - now)
end

-- Finds what is a window old, a bounded number of members at once; returns how
-- many members and how many permits, or nil when one is foreign.
local function over(per, now)
  local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - per, 'LIMIT', 0, WALK)
  local released = sum(expired)
  if not released then return nil end
  return #expired, released
end

-- Drops the oldest members.
local function drop(members)
  if members > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, members - 1) end
end

-- Writes the counter. All three keys live and expire together, or not at all:
-- Redisson's rule. A key that was made again takes the expiry of the hash.
local function store_counter(free, config)
  local idle = config.keep_alive
  if idle > 0 then
    -- Never less than what is used takes to be free again.
    idle = math.max(idle, config.per + bucket_of(config.per))
    redis.call('PEXPIRE', KEYS[1], decimal(idle))
  else
    idle = redis.call('PTTL', KEYS[1])
  end
  if idle > 0 then
    redis.call('SET', KEYS[2], decimal(free), 'PX', decimal(idle))
    redis.call('PEXPIRE', KEYS[3], decimal(idle))
  else
    redis.call('SET', KEYS[2], decimal(free), 'KEEPTTL')
  end
end

-- Writes the counter the log stands for; nil when a member is foreign. A long
-- log counts as all there is until it was made short.
local function rebuild_counter(config)
  local entries, used, whole = read_log(WALK)
  if not entries then return nil end
  local free = whole and config.rate - used or math.min(0, config.rate - used)
  store_counter(free, config)
  return free
end
