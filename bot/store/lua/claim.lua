-- Take lanes that need attention: ready, backed off long enough, or held by somebody whose lease ran out.
-- ARGV: bell, nonce, owner, lease (ms), room.   Answers a list of what is handed out.
local mark = base .. 'cl:' .. ARGV[2]
local before = redis.call('GET', mark)
local taken, out = {}, {}
if before then
  for _, pair in ipairs(cjson.decode(before)) do
    if redis.call('HGET', state(pair[1]), 'token') == pair[2] then out[#out + 1] = handed(pair[1]) end
  end
  return out
end
-- Tokens only ever grow, also when a failover has rolled the counter back.
local function next_token()
  local last = tonumber(redis.call('GET', base .. 'ep') or '0')
  local token = whole(math.max(last + 1, now))
  redis.call('SET', base .. 'ep', token)
  return token
end
for _, lane in ipairs(redis.call('ZRANGEBYSCORE', schedule, '-inf', whole(now), 'LIMIT', 0, ARGV[5])) do
  local st = state(lane)
  if redis.call('EXISTS', inbox(lane)) == 0 then
    redis.call('ZREM', schedule, lane)
    redis.call('DEL', st)
  else
    if redis.call('HEXISTS', st, 'token') == 1 then redis.call('HSET', st, 'error', 'worker lost') end
    local token = next_token()
    redis.call('HINCRBY', st, 'tries', 1)
    redis.call('HSET', st, 'token', token, 'owner', ARGV[3])
    redis.call('PERSIST', st)
    redis.call('DEL', base .. 'ck:' .. lane)
    extend(lane, ARGV[4])
    taken[#taken + 1] = {lane, token}
    out[#out + 1] = handed(lane)
  end
end
if #taken > 0 then redis.call('SET', mark, cjson.encode(taken), 'PX', ARGV[4]) end
return out
