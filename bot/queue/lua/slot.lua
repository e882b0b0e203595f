-- Reserve the next slot of a rate and answer the wait in ms (-1: more than `most`), or delay all slots by a penalty.
-- ARGV: bell, key, what (reserve | penalty), nonce, spacing (ms) or penalty (ms), burst, most (ms, or empty)
if ARGV[3] == 'reserve' then return reserve(ARGV[2], ARGV[4], ARGV[5], ARGV[6], ARGV[7]) end
local known = redis.call('HMGET', ARGV[2], 'next', 'slack')
local back = math.max(tonumber(known[1] or '0'), now + tonumber(ARGV[5]) + tonumber(known[2] or '0'))
redis.call('HSET', ARGV[2], 'next', whole(back))
redis.call('PEXPIRE', ARGV[2], whole(math.max(1000, back - now + 1000)))
return tonumber(ARGV[5])
