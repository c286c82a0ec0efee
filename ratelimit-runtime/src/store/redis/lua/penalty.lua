-- Returns for how long a key is blocked that was refused in many windows in a row: penalty.rs
-- has the rule.
--
-- The state is a text, `COUNTED/ROW/BLOCKS/UNTIL`: when the last window ends in which it was
-- refused (ms), how many in a row those were, how many blocks it had, and when the last of
-- them ends (ms).

-- A state that no limiter writes is none.
local function read_penalty(text)
  local counted, row, blocks, ends =
    string.match(type(text) == 'string' and text or '', '^(%d+)/(%d+)/(%d+)/(%d+)$')
  return { counted = tonumber(counted) or 0, row = tonumber(row) or 0,
    blocks = tonumber(blocks) or 0, ends = tonumber(ends) or 0 }
end

local function block_length(blocks, block, up_to)
  return math.min(block * 2 ^ math.max(0, blocks - 1), up_to)
end

-- A clock that stepped back to before the block, or a shorter one by now, ends it.
local function blocked_for(penalty, block, up_to, now)
  local left = math.max(0, penalty.ends - now)
  return left <= block_length(penalty.blocks, block, up_to) and left or 0
end
