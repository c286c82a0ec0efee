-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- KEYS[2]  string  `bucket EMPTY_AT/TICKS/RATE/PER/AT`: the millisecond in which
--                  what was taken has come back, the ticks that are left then, the
--                  numbers it was counted by, and when it was written; behind it
--                  `/LAST`, when the last reservation begins, if that is to come;
--                  then what moves.lua reads
--
-- A tick is the rate'th part of a millisecond, in which one of them drains; a
-- permit is `per` ticks. So every number is whole, and below 2^53: a bucket holds
-- 2^52 ticks at the most, and what is reserved or owed beyond is 2^51 more.

-- Numbers that no limiter writes are not trusted.
local function read_bucket(text)
  local empty_at, ticks, rate, per, at, last, rest =
    string.match(text or '', '^bucket (%d+)/(%d+)/(%d+)/(%d+)/(%d+)/?(%d*)(.*)$')
  local bucket = empty_at and {
    empty_at = tonumber(empty_at), ticks = tonumber(ticks), rate = tonumber(rate),
    per = math.max(1, tonumber(per)), at = tonumber(at), last = tonumber(last) or 0,
  }
  if not bucket or not are_exact(bucket)
    or (bucket.empty_at - bucket.at) * bucket.rate + bucket.ticks > MOST_EXACT then
    return nil
  end
  if rest ~= '' then
    bucket.moves = read_moves(rest)
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
