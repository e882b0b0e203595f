-- Reserve the next slot of a rate (GCRA) and answer the wait in ms; or only look; or push everything back.
-- ARGV: bell, key, what (reserve | peek | penalty), nonce, spacing (ms) or penalty (ms), burst
local key = base .. 'slot:' .. ARGV[2]
local known = redis.call('HMGET', key, 'next', 'slack', 'nonce', 'slot')
local next_slot, slack = tonumber(known[1] or '0'), tonumber(known[2] or '0')
local ms = tonumber(ARGV[5])
local function store(upcoming, ...)
  redis.call('HSET', key, 'next', whole(upcoming), ...)
  redis.call('PEXPIRE', key, whole(math.max(1000, upcoming - now + 1000)))
end
if ARGV[3] == 'penalty' then
  store(math.max(next_slot, now + ms + slack))
  return ms
end
slack = (tonumber(ARGV[6]) - 1) * ms
local slot = math.max(now, next_slot - slack)
if ARGV[3] == 'peek' then return slot - now end
-- The same reservation again: the same slot.
if known[3] == ARGV[4] then return math.max(0, tonumber(known[4]) - now) end
store(math.max(next_slot, now) + ms, 'slack', whole(slack), 'nonce', ARGV[4], 'slot', whole(slot))
return slot - now
