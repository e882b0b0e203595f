-- Release the lane; its head comes again after the delay.
-- ARGV: bell, lane, token, item, delay (ms), count (1 | 0), error.   Answers lost | ok.
local lane, st, mark = ARGV[2], state(ARGV[2]), ARGV[3] .. '@' .. ARGV[4]
if redis.call('HGET', st, 'back') == mark then return 'ok' end
if not holds(lane, ARGV[3], ARGV[4], 0) then return 'lost' end
if ARGV[6] == '0' then redis.call('HINCRBY', st, 'tries', -1) end
redis.call('HSET', st, 'error', ARGV[7])
redis.call('HSET', st, 'back', mark)
redis.call('HDEL', st, 'token', 'owner', 'by')
redis.call('ZADD', schedule, whole(now + tonumber(ARGV[5])), lane)
if ARGV[5] == '0' then ring() end
return 'ok'
