#!lua
-- commit_rows: set a projection's rows and its checkpoint together.
--
--   EVALSHA <commit_rows> 3 rows checkpoint followers   projection expected checkpoint [run row]*
--
-- KEYS (one slot)
--   1 rows         hash: run -> the projection's row
--   2 checkpoint   string: the last feed entry that the rows contain; absent: 0
--   3 followers    hash: projection -> server ms when it was last here|its checkpoint
--
-- ARGV
--   projection   its name
--   expected     the checkpoint that the rows were folded from
--   checkpoint   the one they lead to
--   run, row     what to set; none: it only says that it still follows
--
-- Reply: 1, or 0 if the checkpoint is another: two projectors do no harm, one of them reads again

local rows, checkpoint, followers = KEYS[1], KEYS[2], KEYS[3]
local projection, expected, next_checkpoint = ARGV[1], ARGV[2], ARGV[3]

if (redis.call('GET', checkpoint) or '0') ~= expected then
  return 0
end
for at = 4, #ARGV, 2 do
  redis.call('HSET', rows, ARGV[at], ARGV[at + 1])
end
redis.call('SET', checkpoint, next_checkpoint)

local clock = redis.call('TIME')
local now = string.format('%.0f', tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000))
redis.call('HSET', followers, projection, now .. '|' .. next_checkpoint)
return 1
