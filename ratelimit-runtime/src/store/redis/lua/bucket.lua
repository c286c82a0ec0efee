-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- A state is the letter `b`, then whole numbers, the lowest byte first: EMPTY_AT, the millisecond in
-- which all taken permits are free again (seven bytes); TICKS, those left then (four); RATE (four)
-- and PER (seven) of the configuration it was counted with; AT, when it was written (six). If a
-- reservation is to come, or grants moved, LAST follows, when the last reservation begins, or 0
-- (seven), and then the numbers of moves.lua.
--
-- A tick is 1/`rate` of a millisecond, in which one tick drains; a permit is `per` ticks. So every
-- number is whole, and below 2^53: a bucket holds at most 2^52 ticks, and at most 2^51 more are
-- reserved or owed beyond that.

-- Rejects numbers that no limiter writes.
local function read_bucket(text)
  if not text or string.byte(text) ~= 98 or (#text ~= 29 and #text < 36) then return nil end
  local bucket = { last = 0 }
  bucket.empty_at, bucket.ticks, bucket.rate, bucket.per, bucket.at = struct.unpack('<I7I4I4I7I6', text, 2)
  if #text > 29 then bucket.last = struct.unpack('<I7', text, 30) end
  if bucket.per == 0 or math.max(bucket.empty_at, bucket.per, bucket.last) > MOST_EXACT
    or (bucket.empty_at - bucket.at) * bucket.rate + bucket.ticks > MOST_EXACT then
    return nil
  end
  if #text > 36 then
    bucket.moves = read_moves(text, 37)
    if not bucket.moves then return nil end
  end
  return bucket
end

-- Writes what `read_bucket` reads.
local function text_of_bucket(empty_at, ticks, rate, per, at, last, moves)
  local text = struct.pack('<BI7I4I4I7I6', 98, empty_at, ticks, rate, per, at)
  if last > 0 or moves then text = text .. struct.pack('<I7', last) end
  return text .. (moves and text_of_moves(moves) or '')
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
