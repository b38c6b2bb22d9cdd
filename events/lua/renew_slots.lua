#!lua flags=allow-oom
-- renew_slots: hold slots for longer; one call a process, however many they are.
--
--   EVALSHA <renew_slots> <number of lanes> held...   hold_ms [lane token]+
--
-- KEYS (one slot)
--   held   of each lane, a sorted set: token -> server ms until which it holds a slot
--
-- ARGV
--   hold_ms       how long they hold from now
--   lane, token   the number of the lane among the keys, from 1, and the token
--
-- A slot that has run out and that nobody counted out yet goes on; one that is gone stays gone.

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local held_until = string.format('%.0f', now + tonumber(ARGV[1]))

for at = 2, #ARGV, 2 do
  redis.call('ZADD', KEYS[tonumber(ARGV[at])], 'XX', held_until, ARGV[at + 1])
end
return 1
