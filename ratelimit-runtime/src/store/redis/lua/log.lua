-- Reads and writes the log: the id, the permits and the time of each grant.
--
-- A member is Redisson's: one byte with the length of an id, the id, and the
-- permits as a little-endian u32; its score is the time in milliseconds.
--
-- KEYS[3]  zset   the log
-- ARGV[7]  bytes  an id for a new member
local WALK = 256     -- members read in one go
local MERGE_AT = 64  -- members beyond which grants share time buckets: with 51 of those
                     -- a log stays below 128, where Redis stores it compactly

-- Returns the permits of a member, or nil if no limiter wrote it.
local function permits_of(member)
  if #member < 5 or string.byte(member) + 5 ~= #member then return nil end
  return (struct.unpack('<I', member, #member - 3))
end

local function bucket_of(per)
  return math.max(1, math.floor(per / 50))
end

-- Returns the sum of members from a range command without scores, or nil.
local function sum(members)
  local total = 0
  for _, member in ipairs(members) do
    local permits = permits_of(member)
    if not permits then return nil end
    total = total + permits
  end
  return total
end

-- Returns the sum of the log without its first members, whether it was read to its end, and the
-- number of members; nil if one has an unsupported format.
local function count(over)
  local members = redis.call('ZRANGE', KEYS[3], over, over + WALK - 1)
  return sum(members), #members < WALK, #members
end

-- Reads the log, oldest first, as { permits, score, member } entries; nil if a member has an
-- unsupported format. A long log is read in part.
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

-- Returns the score of the newest member as the server writes it, or nil.
local function newest_score()
  return redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
end

-- Returns the milliseconds until the whole quota is free again.
local function full_after(newest, per, now)
  return newest and math.max(0, math.ceil(tonumber(newest)) + per - now) or 0
end

-- Finds members that are a window old, a bounded number at once. Returns the number of members and
-- of permits, or nil if one has an unsupported format.
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

-- Writes a grant and returns its date.
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
