#!lua
-- switch_rows: let rebuilt rows take the place of the live ones.
--
--   EVALSHA <switch_rows> 5 new_rows new_checkpoint rows checkpoint followers
--     new_projection projection expected
--
-- KEYS (one slot): as commit_rows.lua describes them, of the rebuilt and of the live projection
--
-- ARGV
--   new_projection, projection   their names
--   expected                     the rebuilt one's checkpoint, as its builder knows it
--
-- Reply: 1, or 0 if that checkpoint is another: somebody else rebuilds too, or has switched

local new_rows, new_checkpoint, rows, checkpoint, followers = unpack(KEYS)
local new_projection, projection, expected = unpack(ARGV)

if redis.call('GET', new_checkpoint) ~= expected then
  return 0
end
redis.call('UNLINK', rows) -- 100,000 rows at once would hold up the server
if redis.call('EXISTS', new_rows) == 1 then
  redis.call('RENAME', new_rows, rows)
end
redis.call('RENAME', new_checkpoint, checkpoint)
local seen = redis.call('HGET', followers, new_projection)
redis.call('HDEL', followers, new_projection)
if seen then
  redis.call('HSET', followers, projection, seen)
end
return 1
