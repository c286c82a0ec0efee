-- Reads the stored configuration.
--
-- KEYS[1]  hash  see hash.lua
--
-- Returns { rate, interval (ms), rule, keep-alive (ms), held for (ms) }, with the rule as in
-- ARGV[3] of set_rate.lua; an empty list if no complete configuration is stored.
local stored, whole = stored_config()
if not whole then return {} end
local made, held, changed = string.match(stored.changed, '^(%d+):(%d+):(.+)$')
local left = changed == numbers_of(stored) and held - math.max(now, math.floor(made / 1000)) or 0
return { decimal(stored.rate), decimal(stored.per), rule_of(stored), decimal(stored.keep_alive),
  decimal(math.max(0, left)) }
