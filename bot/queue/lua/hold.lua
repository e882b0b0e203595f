-- Hold all work for a backup, renew the hold, or end it.
-- ARGV: bell, nonce of the holder, duration (ms; 0 ends the hold), again (1 | 0).
-- Answers ok | taken (somebody else holds the work) | lost (the hold has expired).
local life, nonce, ms = base .. 'life', ARGV[2], tonumber(ARGV[3])
local stored = redis.call('HMGET', life, 'backup', 'backup_until')
local is_held = stored[1] and tonumber(stored[2] or '0') > now
if ms == 0 then
  if stored[1] == nonce then redis.call('HDEL', life, 'backup', 'backup_until') end
  return 'ok'
end
if is_held and stored[1] ~= nonce then return 'taken' end
if ARGV[4] == '1' and not is_held then return 'lost' end
redis.call('HSET', life, 'backup', nonce, 'backup_until', whole(now + ms))
return 'ok'
