-- Record a stop of all that one person (or, with *, anybody) has put into a lane so far, and announce it to the holder.
-- ARGV: bell, channel, lane, at, who.   A repeated stop keeps its first time.
local key = stops(ARGV[3])
local noted = redis.call('HGET', key, ARGV[5])
if not noted or string.match(noted, '|(.*)$') ~= ARGV[4] then
  noted = whole(now) .. '|' .. ARGV[4]
  redis.call('HSET', key, ARGV[5], noted)
  redis.call('PEXPIRE', key, 3600000)
end
redis.call('PUBLISH', ARGV[2], string.match(noted, '^%d+') .. '|' .. ARGV[5] .. '|' .. ARGV[3])
return 'ok'
