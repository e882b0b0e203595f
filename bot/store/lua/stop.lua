-- Note that whatever was put into a lane before now shall stop, and tell the holder.
-- ARGV: bell, channel, lane, at.   The same stop again keeps its first moment.
local key = base .. 'stop:' .. ARGV[3]
local noted = redis.call('GET', key)
if not noted or string.match(noted, '|(.*)$') ~= ARGV[4] then
  noted = whole(now) .. '|' .. ARGV[4]
  redis.call('SET', key, noted, 'PX', 3600000)
end
redis.call('PUBLISH', ARGV[2], string.match(noted, '^%d+') .. '|' .. ARGV[3])
return 'ok'
