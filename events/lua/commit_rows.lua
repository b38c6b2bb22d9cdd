#!lua
-- commit_rows: set a projection's rows and its checkpoint together.
--
--   EVALSHA <commit_rows> 4 rows checkpoint followers runs   projection expected checkpoint [run row]*
--
-- KEYS (one slot)
--   1 rows         hash: run -> the projection's row
--   2 checkpoint   string: the last feed entry that the rows contain; absent: 0
--   3 followers    hash: projection -> server ms when it was last here|its checkpoint
--   4 runs         hash: run -> version|phase|..., as append.lua describes it
--
-- ARGV
--   projection   its name
--   expected     the checkpoint that the rows were folded from
--   checkpoint   the one they lead to
--   run, row     what to set; none: it only says that it still follows. The row of a run that was
--                retired meanwhile went with it, and does not come back.
--
-- Reply: 1, or 0 if the checkpoint is another: two projectors do no harm, one of them reads again

local rows, checkpoint, followers, runs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local TOGETHER = 500 -- rows; a call with thousands of arguments fails
local projection, expected, next_checkpoint = ARGV[1], ARGV[2], ARGV[3]

if (redis.call('GET', checkpoint) or '0') ~= expected then
  return 0
end
for first = 4, #ARGV, 2 * TOGETHER do
  local names, kept = {}, {}
  local last = math.min(first + 2 * TOGETHER, #ARGV + 1) - 1
  for at = first, last, 2 do
    names[#names + 1] = ARGV[at]
  end
  for place, known in ipairs(redis.call('HMGET', runs, unpack(names))) do
    if string.match(known or '', '^%d+|(%a+)|') ~= 'archived' then
      kept[#kept + 1] = names[place]
      kept[#kept + 1] = ARGV[first + 2 * place - 1]
    end
  end
  if #kept > 0 then
    redis.call('HSET', rows, unpack(kept))
  end
end
redis.call('SET', checkpoint, next_checkpoint)

local clock = redis.call('TIME')
local now = string.format('%.0f', tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000))
redis.call('HSET', followers, projection, now .. '|' .. next_checkpoint)
return 1
