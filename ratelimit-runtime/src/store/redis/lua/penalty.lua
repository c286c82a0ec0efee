-- Computes how long a key is blocked after rejections in consecutive windows: penalty.rs has the rule.
--
-- The state is a text, `COUNTED/ROW/BLOCKS/UNTIL`: the end of the last window with a rejection
-- (ms), the number of such consecutive windows, the number of blocks, and the end of the last block
-- (ms).

-- A state that no limiter writes counts as none.
local function read_penalty(text)
  local counted, row, blocks, ends =
    string.match(type(text) == 'string' and text or '', '^(%d+)/(%d+)/(%d+)/(%d+)$')
  return { counted = tonumber(counted) or 0, row = tonumber(row) or 0,
    blocks = tonumber(blocks) or 0, ends = tonumber(ends) or 0 }
end

local function block_length(blocks, block, up_to)
  return math.min(block * 2 ^ math.max(0, blocks - 1), up_to)
end

-- A block also ends if the clock stepped back to before it, or if it is shorter by now.
local function blocked_for(penalty, block, up_to, now)
  local left = math.max(0, penalty.ends - now)
  return left <= block_length(penalty.blocks, block, up_to) and left or 0
end
