-- Takes one permit from a sliding window that keeps a log entry for each permit.
--
-- KEYS[1..3]  hash with `rate` and `interval` (ms), counter of free permits, log
-- ARGV[1]     a unique id for the log member
--
-- Returns 1 when there was one, else 0.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit = redis.call('HMGET', KEYS[1], 'rate', 'interval')
local expired = redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - limit[2])
local free = (redis.call('GET', KEYS[2]) or limit[1]) + expired
if free < 1 then return 0 end
redis.call('ZADD', KEYS[3], now, ARGV[1])
redis.call('SET', KEYS[2], string.format('%.0f', free - 1))
return 1
