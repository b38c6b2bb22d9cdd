#!lua flags=allow-oom
-- trim_feed: drop what every live projection has read from a partition's feed.
--
--   EVALSHA <trim_feed> 3 feed followers meta   keep idle_ms
--
-- KEYS (one slot)
--   1 feed        stream of references, as append.lua describes it
--   2 followers   hash: projection -> server ms when it was last here|its checkpoint
--   3 meta        hash: trimmed -> id of the last entry dropped, ever
--
-- ARGV
--   keep      the newest entries stay, so many
--   idle_ms   a projection that was not here for so long no longer holds the feed up
--
-- Reply: how many entries were dropped
-- An entry that is a live checkpoint stays, too. XTRIM leaves no trace that a reader could see; the
-- id in meta is that trace.

local feed, followers, meta = KEYS[1], KEYS[2], KEYS[3]
local keep, idle_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function is_before(one, other)
  local ms, seq = string.match(one, '^(%d+)-?(%d*)$')
  local other_ms, other_seq = string.match(other, '^(%d+)-?(%d*)$')
  ms, other_ms = tonumber(ms), tonumber(other_ms)
  if ms ~= other_ms then
    return ms < other_ms
  end
  return (tonumber(seq) or 0) < (tonumber(other_seq) or 0)
end

local newest = redis.call('XREVRANGE', feed, '+', '-', 'COUNT', keep)
if #newest < keep then
  return 0
end
local first_kept = newest[#newest][1]
local known = redis.call('HGETALL', followers)
for at = 1, #known, 2 do
  local seen, checkpoint = string.match(known[at + 1], '^(%d+)|(.+)$')
  if tonumber(seen) + idle_ms < now then
    redis.call('HDEL', followers, known[at])
  elseif is_before(checkpoint, first_kept) then
    first_kept = checkpoint
  end
end

local last_dropped = redis.call('XREVRANGE', feed, '(' .. first_kept, '-', 'COUNT', 1)[1]
if not last_dropped then
  return 0
end
redis.call('HSET', meta, 'trimmed', last_dropped[1])
return redis.call('XTRIM', feed, 'MINID', first_kept)
