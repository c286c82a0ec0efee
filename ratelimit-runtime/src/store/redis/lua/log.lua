-- Reads and writes the log: who took how many permits, and when.
--
-- A member is Redisson's: one byte with the length of an id, the id, and the
-- permits as a little-endian u32; its score is the time in milliseconds.
--
-- KEYS[1]  hash   the configuration, which says when all keys expire
-- KEYS[3]  zset   the log
-- ARGV[7]  bytes  an id for a new member
local WALK = 256     -- members read in one go
local MERGE_AT = 64  -- members beyond which grants share time buckets: with 51 of those
                     -- a log stays below 128, where Redis stores it compactly

-- The permits of a member, or nil when it was not written by a limiter.
local function permits_of(member)
  if #member < 5 or string.byte(member) + 5 ~= #member then return nil end
  return (struct.unpack('<I', member, #member - 3))
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

-- The sum of the log without its first members, whether it was read to its end,
-- and how many members that are; nil when one is foreign.
local function count(over)
  local members = redis.call('ZRANGE', KEYS[3], over, over + WALK - 1)
  return sum(members), #members < WALK, #members
end

-- Reads the log, oldest first, as { permits, score, member } entries; nil when a
-- member is foreign. A long log is read in part.
local function read_log()
  local flat = redis.call('ZRANGE', KEYS[3], 0, WALK - 1, 'WITHSCORES')
  local entries = {}
  for i = 1, #flat, 2 do
    local permits = permits_of(flat[i])
    if not permits then return nil end
    entries[#entries + 1] = { permits = permits, score = tonumber(flat[i + 1]), member = flat[i] }
  end
  return entries
end

-- The score of the newest member as the server writes it, or nil.
local function newest_score()
  return redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
end

-- The milliseconds until the whole quota is free again.
local function full_after(newest, per, now)
  return newest and math.max(0, math.ceil(tonumber(newest)) + per - now) or 0
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

-- Writes a grant down and returns the time it is dated.
local function record(permits, rate, bucket, now)
  local score, member = now, struct.pack('<Bc0I', #ARGV[7], ARGV[7], permits)
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
  return score
end

-- How long the hash still lives, ms; nil when it does not expire. In its last millisecond
-- that is 0, and it still lives.
local function left_of_hash()
  local left = redis.call('PTTL', KEYS[1])
  return left >= 0 and math.max(1, left) or nil
end

-- Writes the counter. All three keys live and expire together, or not at all:
-- Redisson's rule, see also grant.lua. A key that was made again takes the expiry of the hash.
local function store_counter(free, config)
  local idle = config.keep_alive
  if idle > 0 then
    -- Never less than what is used takes to be free again, and a quarter longer.
    idle = math.max(idle, config.per + bucket_of(config.per))
    idle = idle + math.ceil(config.debt / math.max(1, config.rate)) * config.per
    idle = math.min(idle + math.floor(idle / 4), LONGEST)
    redis.call('PEXPIRE', KEYS[1], idle)
  else
    idle = left_of_hash()
  end
  if idle then
    redis.call('SET', KEYS[2], decimal(free), 'PX', idle)
    redis.call('PEXPIRE', KEYS[3], idle)
  else
    redis.call('SET', KEYS[2], decimal(free), 'KEEPTTL')
  end
end

-- Writes the counter the log stands for; nil when a member is foreign. A long
-- log counts as all there is until it was made short.
local function rebuild_counter(config)
  local used, whole = count(0)
  if not used then return nil end
  local free = whole and config.rate - used or math.min(0, config.rate - used)
  store_counter(free, config)
  return free
end
