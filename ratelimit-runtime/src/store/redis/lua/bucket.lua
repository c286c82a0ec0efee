-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- A state is the letter `b`, then whole numbers of seven bytes each, the lowest byte first:
-- EMPTY_AT, the millisecond in which all taken permits are free again; TICKS, those left then; RATE
-- and PER of the configuration it was counted with; AT, when it was written; LAST, when the last
-- reservation begins, or 0 if none is to come. The numbers of moves.lua follow.
--
-- A tick is 1/`rate` of a millisecond, in which one tick drains; a permit is `per` ticks. So every
-- number is whole, and below 2^53: a bucket holds at most 2^52 ticks, and at most 2^51 more are
-- reserved or owed beyond that.

local BUCKET = { 'empty_at', 'ticks', 'rate', 'per', 'at', 'last' }

-- Rejects numbers that no limiter writes.
local function read_bucket(text)
  if not text or string.byte(text) ~= 98 then return nil end
  local bucket, behind = unpacked(text, 2, BUCKET)
  if not bucket or bucket.per == 0
    or (bucket.empty_at - bucket.at) * bucket.rate + bucket.ticks > MOST_EXACT then
    return nil
  end
  if behind <= #text then
    bucket.moves = read_moves(text, behind)
    if not bucket.moves then return nil end
  end
  return bucket
end

-- Returns the ticks that have not drained yet. If the clock stepped back, no time has passed.
local function backlog_of(bucket, now)
  return math.max(0, (bucket.empty_at - math.max(now, bucket.at)) * bucket.rate + bucket.ticks)
end

-- Returns the ms until it is empty and nothing of it can be returned.
local function lasts_of(bucket, now)
  local moves_last = bucket.moves and bucket.moves.ends - now or 0
  return math.max(math.ceil(backlog_of(bucket, now) / math.max(1, bucket.rate)), moves_last)
end
