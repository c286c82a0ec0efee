-- Records a rejection, and blocks the key if it was rejected in enough consecutive windows.
--
-- KEYS[1]  string   see penalty.lua; it expires once it has no effect
-- ARGV[1]  `AFTER/PER`: in how many consecutive windows, and their length, ms
-- ARGV[2]  integer  the first block, ms
-- ARGV[3]  integer  the longest block, and for how long one is remembered, ms
--
-- Returns { for how long it is blocked (ms), 1 if this rejection blocked it, else 0, time until the
-- current window ends (ms) }.
local after, per = string.match(ARGV[1], '^(%d+)/(%d+)$')
after, per = tonumber(after), tonumber(per)
local block, up_to = tonumber(ARGV[2]), tonumber(ARGV[3])
-- A value of another type is replaced.
local penalty = read_penalty(redis.pcall('GET', KEYS[1]))
local left, ends = blocked_for(penalty, block, up_to, now), now - now % per + per
if left > 0 or penalty.counted == ends then return { left, 0, ends - now } end

if now >= penalty.ends + up_to then penalty.blocks, penalty.ends = 0, 0 end
penalty.row = penalty.counted + per == ends and penalty.row + 1 or 1
local kept = ends + per
if penalty.row >= after then
  penalty.row, penalty.blocks = 0, penalty.blocks + 1
  left = block_length(penalty.blocks, block, up_to)
  penalty.ends = now + left
end
if penalty.blocks > 0 then kept = math.max(kept, penalty.ends + up_to) end
redis.call('SET', KEYS[1], string.format('%.0f/%.0f/%.0f/%.0f', ends, penalty.row, penalty.blocks,
  penalty.ends), 'PX', kept - now)
return { left, left > 0 and 1 or 0, ends - now }
