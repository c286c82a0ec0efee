-- How the grants of a bucket move forward when permits before them are returned.
--
-- A bucket drains in the order of grants, so a grant is found by the time at which it is drained.
-- Each permit that is returned before it makes that time earlier. A state keeps how far grants
-- moved in all, `total`, and a grant keeps what that was when it was made; if permits were returned
-- behind a grant, the `gaps` record that it stayed. They are written behind a bucket that has any,
-- as numbers of seven bytes each: TOTAL, ENDS, LARGEST, EARLIER, LATER, TURNS_AT, SPARE_RATE and
-- SPARE_UNTIL, in ticks and milliseconds, then AT and TICKS of each gap, the millisecond in which
-- it would begin to drain. ENDS is when every grant made before the last move has drained.
--
-- Reservations begin at fixed times, and must not drain earlier. LARGEST is the largest one that
-- has not begun. EARLIER and LATER are those that overtake reservations made before them, of one
-- turn and of the next, which begins at TURNS_AT: a reservation made before a turn has begun when
-- the turn ends. Until SPARE_UNTIL, SPARE_RATE more ticks per millisecond drain than are reserved,
-- because reservations were made at a lower rate.

-- The maximum number of gaps; beyond it, two are merged at the earlier place.
local MOST_GAPS = 8

local function no_moves()
  return { total = 0, ends = 0, largest = 0, earlier = 0, later = 0, turns_at = 0,
    spare_rate = 0, spare_until = 0, gaps = {} }
end

local MOVES =
  { 'total', 'ends', 'largest', 'earlier', 'later', 'turns_at', 'spare_rate', 'spare_until' }
local GAP = { 'at', 'ticks' }

-- Reads the numbers behind a bucket, or returns nil if no bucket writes them.
local function read_moves(text, from)
  local moves, behind = unpacked(text, from, MOVES)
  if not moves or moves.total == MOST_EXACT then return nil end
  moves.gaps = {}
  while behind <= #text do
    local gap
    gap, behind = unpacked(text, behind, GAP)
    if not gap or gap.at + gap.ticks > MOST_EXACT or #moves.gaps == MOST_GAPS then return nil end
    moves.gaps[#moves.gaps + 1] = gap
  end
  return moves
end

-- Writes what `read_moves` reads.
local function text_of_moves(moves)
  local text = packed(moves, MOVES)
  for _, gap in ipairs(moves.gaps) do text = text .. packed(gap, GAP) end
  return text
end

-- Returns by how many ticks a grant that was to end in `ends_in` ticks moved since the total was
-- `total`, and in how many it ends at the latest, if there is a gap behind it.
local function moved_of(moves, ends_in, total, rate, now)
  local moved, latest = moves.total - total, math.huge
  if moved < 0 then moved = moved + MOST_EXACT end
  for n = #moves.gaps, 1, -1 do
    local begins_in = (moves.gaps[n].at - now) * rate
    -- A grant before a gap that was reached has drained.
    if begins_in <= 0 or ends_in > moved + begins_in then break end
    moved = math.max(0, moved - moves.gaps[n].ticks)
    latest = begins_in
  end
  return moved, latest
end

-- Counts ticks removed from the backlog, which would have drained at `ends`. Numbers are exact up
-- to 2^53, and then start again at 0.
local function add_move(moves, ticks, ends)
  local left = MOST_EXACT - moves.total
  moves.total = ticks < left and moves.total + ticks or ticks - left
  moves.ends = math.max(moves.ends, ends)
end

-- Records returned ticks that would have begun to drain at the time `at`: all behind them moves.
local function move_behind(moves, at, ticks, rate, now, ends)
  add_move(moves, ticks, ends)
  local gaps, behind = {}, {}
  for _, gap in ipairs(moves.gaps) do
    if gap.at > now and gap.at <= at then
      gaps[#gaps + 1] = gap
    elseif gap.at > now then
      behind[#behind + 1] = { at = math.max(at, gap.at - math.ceil(ticks / rate)), ticks = gap.ticks }
    end
  end
  if at > now then gaps[#gaps + 1] = { at = at, ticks = ticks } end
  for _, gap in ipairs(behind) do gaps[#gaps + 1] = gap end
  if #gaps > MOST_GAPS then
    -- Merges the two closest gaps, so that the fewest grants lie between them.
    local closest = 1
    for n = 2, MOST_GAPS do
      if gaps[n + 1].at - gaps[n].at < gaps[closest + 1].at - gaps[closest].at then closest = n end
    end
    gaps[closest].ticks = gaps[closest].ticks + table.remove(gaps, closest + 1).ticks
  end
  moves.gaps = gaps
end
