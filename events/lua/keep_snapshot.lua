#!lua
-- keep_snapshot: keep a run's folded state, to begin later folds at.
--
--   EVALSHA <keep_snapshot> 2 runs snapshot   run version gap_events ttl_ms data
--
-- KEYS (one slot; rows as append.lua describes them)
--   1 runs       hash: run -> version|phase|...
--   2 snapshot   hash: v -> version, d -> data
--
-- ARGV
--   run, version   whose state it is, and as of which version
--   gap_events     one that stands less than so far behind is left as it is
--   ttl_ms         how long it is kept, unless another takes its place
--   data           the state
--
-- Reply: 1, or 0 where nothing was kept: the run is gone, archived or not that far yet, or there is
-- one that will do. One that is ahead of its run is replaced: the server was set back.

local runs, snapshot = KEYS[1], KEYS[2]
local run, version, gap, ttl_ms, data = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

local now_at, phase = string.match(redis.call('HGET', runs, run) or '', '^(%d+)|(%a+)|')
now_at = tonumber(now_at)
if not now_at or phase == 'archived' or version > now_at then
  return 0
end
local kept = tonumber(redis.call('HGET', snapshot, 'v') or '0')
if kept <= now_at and kept + gap > version then
  return 0
end
redis.call('HSET', snapshot, 'v', ARGV[2], 'd', data)
redis.call('PEXPIRE', snapshot, ttl_ms)
return 1
