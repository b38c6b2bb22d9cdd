#!lua flags=allow-oom
-- replace_data_keys: put other records in the place of runs' data keys, each only if it is what was
-- read: of two rotations at once, or a rotation and a forgetting, none undoes the other.
--
--   EVALSHA <replace_data_keys> 1 <data keys>   [run expected record]*
--
-- KEYS
--   1 data keys    hash: run -> its data key's id|...
--
-- Reply: how many were replaced. A rotation may run when memory is full: records are of one size.

local replaced = 0
for at = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
    replaced = replaced + 1
  end
end
return replaced
