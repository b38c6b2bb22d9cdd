#!lua
-- commit_rows: set a projection's rows and its checkpoint together.
--
--   EVALSHA <commit_rows> 2 rows checkpoint   expected checkpoint [run row]*
--
-- KEYS (one slot)
--   1 rows         hash: run -> the projection's row
--   2 checkpoint   string: the last feed entry that the rows contain; absent: 0
--
-- ARGV
--   expected     the checkpoint that the rows were folded from
--   checkpoint   the one they lead to
--   run, row     what to set
--
-- Reply: 1, or 0 if the checkpoint is another: two projectors do no harm, one of them reads again

local rows, checkpoint = KEYS[1], KEYS[2]

if (redis.call('GET', checkpoint) or '0') ~= ARGV[1] then
  return 0
end
for at = 3, #ARGV, 2 do
  redis.call('HSET', rows, ARGV[at], ARGV[at + 1])
end
redis.call('SET', checkpoint, ARGV[2])
return 1
