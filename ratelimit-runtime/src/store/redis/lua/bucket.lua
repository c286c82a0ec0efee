-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- A state is the letter `b`, then whole numbers of seven bytes each, the lowest first: EMPTY_AT,
-- the millisecond in which what was taken has come back; TICKS, that are left then; RATE and
-- PER, the numbers it was counted by; AT, when it was written; LAST, when the last reservation
-- begins, or 0 if that is not to come. Behind them is what moves.lua reads.
--
-- A tick is the rate'th part of a millisecond, in which one of them drains; a
-- permit is `per` ticks. So every number is whole, and below 2^53: a bucket holds
-- 2^52 ticks at the most, and what is reserved or owed beyond is 2^51 more.

local BUCKET = { 'empty_at', 'ticks', 'rate', 'per', 'at', 'last' }

-- Numbers that no limiter writes are not trusted.
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

-- The ticks that have not drained yet. No time has passed for a clock that stepped
-- back.
local function backlog_of(bucket, now)
  return math.max(0, (bucket.empty_at - math.max(now, bucket.at)) * bucket.rate + bucket.ticks)
end

-- How long until it is empty, and nothing can be given back of it, ms.
local function lasts_of(bucket, now)
  local moves_last = bucket.moves and bucket.moves.ends - now or 0
  return math.max(math.ceil(backlog_of(bucket, now) / math.max(1, bucket.rate)), moves_last)
end
