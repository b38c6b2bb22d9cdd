#!lua
-- audit: repair and report what should not be, for one page of tasks and runs.
--
--   EVALSHA <audit> 3 due tasks runs   number_of_tasks [task]* [run]*
--
-- KEYS (one slot; records and rows as append.lua describes them)
--   1 due     sorted set: task -> server ms
--   2 tasks   hash: task -> state|token|op|inbox|claims
--   3 runs    hash: run -> version|phase|...
--
-- Reply: the repaired tasks
--   a task given that is ready, timed or leased and had no due entry: it is due now
--   a run's own task, where a run given has not ended and had none: it is ready now
-- Names may be outdated, as scans are; each is judged by what is there now.

local due, tasks, runs = KEYS[1], KEYS[2], KEYS[3]
local task_count = tonumber(ARGV[1])
local READY, WAITING = 'q', 'w'

local clock = redis.call('TIME')
local now = string.format('%.0f', tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000))

local function is_unscheduled(task)
  local state = string.match(redis.call('HGET', tasks, task) or '', '^(%a)|')
  return state and state ~= WAITING and not redis.call('ZSCORE', due, task)
end

local function is_stranded(run)
  local phase = string.match(redis.call('HGET', runs, run) or '', '^%d+|(%a+)|')
  local going = phase == 'open' or phase == 'cancelling'
  return going and redis.call('HEXISTS', tasks, run .. '/') == 0
end

local repaired = {}
for at = 2, 1 + task_count do
  if is_unscheduled(ARGV[at]) then
    redis.call('ZADD', due, now, ARGV[at])
    repaired[#repaired + 1] = ARGV[at]
  end
end
for at = 2 + task_count, #ARGV do
  if is_stranded(ARGV[at]) then
    local task = ARGV[at] .. '/'
    redis.call('HSET', tasks, task, table.concat({ READY, '', '', 0, 0 }, '|'))
    redis.call('ZADD', due, now, task)
    repaired[#repaired + 1] = task
  end
end
return repaired
