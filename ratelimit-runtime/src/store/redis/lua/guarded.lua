-- Ends a call that guard.lua started: marks the replies of blocked limiters, with the end of the block.
--
-- Other replies are unchanged. A blocked limiter has a kind of its own: nothing is free until the
-- block ends, nor before the wait of the cost.
local BLOCKED = 8

local result = decided()
local replies = type(result[1]) ~= 'number' and result or { result }
for n, left in pairs(blocked) do
  local reply = replies[n]
  if reply[1] == 1 then
    reply[1], reply[2], reply[3], reply[10] = BLOCKED, 0, math.max(reply[3], left), left
  end
end
return result
